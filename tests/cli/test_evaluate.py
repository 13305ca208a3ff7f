"""`egg-graph evaluate` on real candidates, judged without a GPU by one warm evaluator.

That the command starts an evaluator and ends it: test_end_to_end.py, of `egg-graph optimize`.
"""

import json
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from egg_graph.cli import app
from egg_graph.evaluator import gpu_present
from egg_graph.runs.evidence import read_evidence

pytestmark = pytest.mark.slow

REFERENCE = """
import torch
from torch import nn

ROWS = 64
COLUMNS = 500


class Model(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return torch.relu(x) * self.factor


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return [2.0]
"""
RIGHT = """
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def twice_relu_kernel(x, out, size, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < size
    tl.store(out + offsets, 2.0 * tl.maximum(tl.load(x + offsets, mask=inside), 0.0), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, factor):
        super().__init__()

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        twice_relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
"""


@pytest.fixture
def words(tmp_path):
    """Write the files; returns the command's words."""
    (tmp_path / "reference.py").write_text(REFERENCE)

    def command(candidate, *options, reference="reference.py"):
        (tmp_path / "candidate.py").write_text(candidate)
        return ["evaluate", reference, "candidate.py", "--device", "none", *options]

    return command


@pytest.fixture
def judge(words, evaluator, tmp_path, monkeypatch):
    """The command in this process, judged by an evaluator that is warm already, of the settings that it asks for."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def warm(**settings):
        assert settings == {"device": "none", "timeout": evaluator.timeout, "profile": False}
        return nullcontext(evaluator)

    monkeypatch.setattr("egg_graph.evaluator.LocalEvaluator", warm)

    def run(*given, **named):
        result = CliRunner().invoke(app, words(*given, **named))
        return SimpleNamespace(returncode=result.exit_code, stdout=result.stdout, stderr=result.stderr)

    return run


def test_a_right_kernel_is_accepted_with_its_evidence(judge, tmp_path):
    result = judge(RIGHT, "--json", "--target", "h200", "--evidence", "record.json")
    assert result.returncode == 0, result.stderr
    record = read_evidence(tmp_path / "record.json")
    assert (record.candidate.source, record.task.reference) == (RIGHT, REFERENCE)
    assert record.settings.finalist and record.seed is not None
    told = json.loads(result.stdout.splitlines()[-1])
    assert list(told)[:2] == ["status", "reason"]
    assert told["status"] == "correct" and told["usable"]
    assert told["proven"] and any("no speed" in line for line in told["not_proven"])
    assert "other arguments of the constructor than factor = 2.0" in told["not_proven"]
    assert {check["name"] for check in told["checks"]} >= {"shrunk", "awkward"}
    assert told["resources"][0]["target"] == "sm_90"


def test_a_wrong_kernel_is_rejected_with_its_reason(judge):
    result = judge(RIGHT.replace("2.0 *", "2.1 *"), "--json", "--target", "h100")
    assert result.returncode == 1, result.stderr
    told = json.loads(result.stdout.splitlines()[-1])
    assert (told["status"], told["usable"]) == ("incorrect", False)
    assert told["findings"][0]["kind"] == "wrong_values"


def test_a_person_is_told_the_same_and_where_the_record_lies(judge, tmp_path):
    result = judge("def (", "--target", "h200", "--evidence", "record.json")
    assert result.returncode == 1
    assert "compile_error" in result.stdout and "syntax_error" in result.stdout
    assert "target NVIDIA H200" in result.stdout
    assert result.stdout.splitlines()[-1].split() == ["record", "record.json"]
    assert read_evidence(tmp_path / "record.json").evaluation.status == "compile_error"


def test_what_is_no_record_is_one_line_and_exit_2(tmp_path):
    (tmp_path / "kernel.py").write_text(RIGHT)
    result = CliRunner().invoke(app, ["replay", str(tmp_path / "kernel.py")])
    assert result.exit_code == 2
    assert "kernel.py: no record, or a damaged one: line 2 is not JSON" in " ".join(result.stderr.split())


def test_a_record_without_a_gpu_is_not_repeated_on_one(judge, tmp_path):
    if gpu_present():
        pytest.skip("there is a GPU here")
    judge("def (", "--target", "h200", "--evidence", "record.json")
    result = CliRunner().invoke(app, ["replay", str(tmp_path / "record.json"), "--device", "gpu"])
    assert result.exit_code == 2
    assert "--device gpu: there is no GPU here" in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    "broken",
    ["def (\n", REFERENCE.replace("torch.relu(x)", "torch.relu(x, x, x)"), REFERENCE.replace("Model", "Net")],
    ids=["no Python", "fails to run", "no Model"],
)
def test_a_broken_reference_is_one_line_and_exit_2(judge, tmp_path, broken):
    (tmp_path / "broken.py").write_text(broken)
    result = judge(RIGHT, "--json", "--target", "h200", reference="broken.py")
    assert result.returncode == 2, result.stdout + result.stderr
    assert len(result.stderr.strip().splitlines()) == 1, result.stderr
    told = json.loads(result.stdout)
    assert told["status"] == "bad_input" and not told["usable"]
    assert result.stderr.strip().endswith(told["reason"])
