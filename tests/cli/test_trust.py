"""The trust commands and the laboratory's as a user meets them: exit status, results, and a host without LangGraph."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from egg_graph.cli import app
from tests.lab.commands import lab
from tests.paths import CORPUS, ROOT
from tests.sample import thorough

pytestmark = pytest.mark.slow


def run(*words):
    return CliRunner().invoke(app, ["trust", *map(str, words)], env={"COLUMNS": "200"})


def run_lab(*words):
    return CliRunner().invoke(lab, [*map(str, words)], env={"COLUMNS": "200"})


@pytest.fixture
def small(tmp_path):
    """Copies of the corpora's files beside a softmax of few numbers: what the commands do with them is the point."""
    problem = (CORPUS / "problems" / "softmax.py").read_text()
    (tmp_path / "problems").mkdir()
    (tmp_path / "problems" / "softmax.py").write_text(problem.replace("2048", "16").replace("4096", "128"))

    def copy(name):
        return shutil.copy(CORPUS / name, tmp_path)

    return copy


def test_a_bad_header_is_one_line_and_exit_status_2(tmp_path):
    (tmp_path / "bare.py").write_text("import torch\n")
    result = run("corpus", tmp_path, "--device", "none")
    assert result.exit_code == 2
    assert "bare.py: no header" in result.stderr


@pytest.fixture
def lent(evaluator, monkeypatch):
    """The command's evaluator is one that is warm already, and stays open."""
    judge = SimpleNamespace(environment=evaluator.environment, evaluate=evaluator.evaluate, close=lambda: None)
    monkeypatch.setattr("egg_graph.bench.trust.corpus.LocalEvaluator", lambda **settings: judge)


def test_a_corpus_that_does_as_expected_is_exit_status_0(lent, tmp_path):
    out = tmp_path / "trust.json"
    corpora = (CORPUS / "bugs", CORPUS / "right")
    result = run("corpus", *corpora, "--device", "none", "--only", "bug-01", "--only", "right-01", "--out", out)
    assert result.exit_code == 0, result.output
    assert "Of 1 tricks and bugs 1 were caught (100.0%)" in result.output
    assert json.loads(out.read_text())["summary"]["false_reject_rate"] == 0.0


def test_a_missed_bug_is_exit_status_1(small, lent):
    not_a_bug = Path(small("right/softmax_one_block.py"))
    not_a_bug.write_text(not_a_bug.read_text().replace('expect = ["right"]', 'expect = ["incorrect"]'))
    result = run("corpus", not_a_bug, "--device", "none")
    assert result.exit_code == 1
    assert "missed" in result.output


@thorough
def test_a_short_soak_leaves_nothing(small, tmp_path):
    out = tmp_path / "soak.json"
    corpora = [small(name) for name in ("right/softmax_one_block.py", "faults/segfault.py", "faults/raises.py")]
    result = run_lab("soak", *corpora, "--device", "none", "--count", "4", "--out", out)
    assert result.exit_code == 0, result.output
    written = json.loads(out.read_text())
    assert (written["processes_left"], written["files_left"], written["complaints"]) == ([], [], [])
    assert any(turn["fault"] for turn in written["turns"])


@thorough
def test_after_every_fault_a_right_kernel_gets_the_answer_of_before(small, tmp_path):
    out = tmp_path / "faults.json"
    right = small("right/softmax_one_block.py")
    result = run_lab("faults", right, small("faults/segfault.py"), "--device", "none", "--timeout", "40", "--out", out)
    assert result.exit_code == 0, result.output
    written = json.loads(out.read_text())
    told = {fault["name"]: (fault["status"], fault["findings"], fault["same_answer"]) for fault in written["faults"]}
    assert told == {
        "segmentation fault": ("runtime_error", ["crashed"], True),
        "fork bomb behind the gate": ("runtime_error", ["too_many_processes"], True),
        "worker killed": ("correct", [], True),
        "fork servers killed": ("correct", [], True),
        "judge killed": ("correct", [], True),
    }


IN_THE_WHEEL = ("corpus", "spread", "probe")
IN_THE_LABORATORY = ("soak", "faults", "cost", "throughput", "loaded_host", "figures", "commands")


def test_no_model_and_no_graph_is_needed():
    blocked = "('langgraph', 'langchain_core', 'langchain_openai', 'openai', 'jinja2', 'matplotlib')"
    modules = [f"egg_graph.bench.trust.{name}" for name in IN_THE_WHEEL]
    modules += [f"tests.lab.{name}" for name in IN_THE_LABORATORY]
    code = (
        "import importlib, sys\n"
        "class Blocked:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.split('.')[0] in {blocked}:\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Blocked())\n"
        f"for module in ['egg_graph.cli', *{modules}]:\n"
        "    importlib.import_module(module)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
