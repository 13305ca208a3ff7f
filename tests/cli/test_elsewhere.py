"""`egg-graph optimize --evaluator`: a run whose kernels another machine judges."""

import functools
import json
import re
import signal

import pytest
from typer.testing import CliRunner

import egg_graph
from egg_graph.cli import app
from egg_graph.cli.judging_host import tell_answer
from egg_graph.evaluator.pool import Pool
from egg_graph.evaluator.progress import hear_progress
from egg_graph.evaluator.remote.questions import Answer
from egg_graph.evaluator.remote.spool_evaluator import SpoolEvaluator
from egg_graph.schema import AnswerPending, Spending, Trial
from tests.evaluator.remote.commands import ended, start, until
from tests.evaluator.remote.host import judge_batch
from tests.graph.scripted import REFERENCE, StatelessTeam, kernel
from tests.sample import thorough


@pytest.fixture
def egg(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    for variable in ("EGG_MODEL", "EGG_GRAPH_TOKEN"):
        monkeypatch.delenv(variable, raising=False)
    parts = {"team": StatelessTeam([kernel("timed", 2)], worth=(False,)), "principles": ()}
    for name in ("optimize", "resume"):
        monkeypatch.setattr(egg_graph, name, functools.partial(getattr(egg_graph, name), **parts))
    (tmp_path / "relu.py").write_text(REFERENCE)
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


def test_a_run_ends_where_an_answer_is_missing_and_goes_on_when_it_is_there(egg, tmp_path):
    ended = egg("optimize", "relu.py", "--evaluator", "spool:spool,wait=0", "--stage", "algorithmic_structure")
    (folder,) = (tmp_path / "runs").iterdir()
    resume = f"egg-graph optimize --resume {folder.name}"
    rounds = 0
    while ended.exit_code == 4:
        assert f"stopped; go on with: {resume}" in ended.stderr
        assert re.search(r"no answer yet in \S*spool:", ended.stderr)
        judge_batch(tmp_path / "spool", tmp_path / "log")
        ended, rounds = egg(*resume.split()[1:]), rounds + 1
    assert ended.exit_code == 0, ended.output
    assert rounds == 4, "which machine, its baseline, the kernel, the kernel as a finalist"
    evidence = json.loads((folder / "evidence.json").read_text())
    assert evidence["evaluation"]["environment"]["gpu"] == "NVIDIA H100 80GB HBM3"
    assert evidence["record"]["task"]["target"]["key"] == "h100"


def waiting(folder):
    return [path.stem for path in folder.glob("questions/*.json")]


@thorough
@pytest.mark.usefixtures("egg")
def test_a_run_that_is_killed_while_it_waits_goes_on_with_the_answer_and_asks_nothing_twice(tmp_path, evaluator):
    spool, asked = tmp_path / "spool", []
    limits = ("--target", "h100", "--device", "none", "--stage", "algorithmic_structure", "--no-memory")

    def begin(name, wait):
        return ("optimize", "relu.py", "--evaluator", f"spool:{spool},wait={wait}", "--runs", name, *limits)

    words = begin("killed", wait=600)
    while len(asked) < 5:
        with ended(start("egg_graph", *words), signal.SIGKILL) as graph:
            until(lambda: waiting(spool) or graph.poll() is not None, seconds=200)
        if graph.returncode != -signal.SIGKILL:
            break
        asked += waiting(spool)
        judge_batch(spool, pool=Pool([lambda: evaluator]))
        (folder,) = (tmp_path / "killed").iterdir()
        words = ("optimize", "--resume", folder.name, "--runs", "killed")
    assert graph.returncode == 0, graph.said
    assert len(asked) == len(set(asked)) == 3, "its baseline, the kernel, the kernel as a finalist"
    undisturbed = start("egg_graph", *begin("whole", wait=0))
    said = undisturbed.communicate(timeout=200)
    assert undisturbed.returncode == 0, ("what was not killed asks something else", said)
    (whole,) = (tmp_path / "whole").iterdir()
    kept = [sorted(path.name for path in run.glob("evaluations/*")) for run in (folder, whole)]
    assert kept[0] == kept[1] and len(kept[0]) == 3
    assert (folder / "kernel.py").read_text() == (whole / "kernel.py").read_text()


def test_a_host_that_finds_nothing_says_so_and_tells_a_sweep_by_its_size(egg, tmp_path, capsys):
    for place in ("questions", "answers"):
        (tmp_path / "empty" / place).mkdir(parents=True)
    result = egg("spool", "empty", "--device", "none")
    assert result.exit_code == 0 and "0 questions waited in empty" in result.output
    spent = Spending(seconds={"compile": 2.0})
    trials = [Trial(config={}, status=status, spent=spent) for status in ("correct", "compile_error")]
    tell_answer("0" * 64, None, Answer(key="0" * 64, judge="", trials=trials))
    assert "2 configurations, 1 usable (4 s)" in capsys.readouterr().out


@pytest.mark.parametrize("wait", [0, 0.01])
def test_only_who_waits_says_so(tmp_path, wait):
    heard = []
    with hear_progress(heard.append), pytest.raises(AnswerPending):
        SpoolEvaluator(tmp_path / "spool", wait=wait, poll=0.01).environment()
    assert [report.doing.startswith("waits for") for report in heard] == [True] * bool(wait)


@pytest.mark.parametrize(
    ("name", "said"),
    [("gpu-host", "give a URL, spool:FOLDER"), ("http://127.0.0.1:1", "set EGG_GRAPH_TOKEN (token=)")],
)
def test_an_evaluator_that_there_cannot_be_is_refused_before_anything_is_made(egg, tmp_path, name, said):
    ended = egg("optimize", "relu.py", "--evaluator", name)
    assert ended.exit_code == 2 and said in ended.stderr and len(ended.stderr.splitlines()) == 1
    assert not (tmp_path / "runs").exists()
