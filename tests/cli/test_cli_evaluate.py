"""`egg-graph evaluate` on real candidates, judged without a GPU."""

import json
import subprocess
import sys

import pytest

from egg_graph.records import read_evidence

REFERENCE = """
import torch
from torch import nn

ROWS = 64
COLUMNS = 500


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2.0


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]
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
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        twice_relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
"""


@pytest.fixture
def judge(tmp_path):
    (tmp_path / "reference.py").write_text(REFERENCE)

    def run(candidate, *options, reference="reference.py"):
        (tmp_path / "candidate.py").write_text(candidate)
        command = [
            sys.executable,
            "-m",
            "egg_graph",
            "evaluate",
            reference,
            "candidate.py",
            "--device",
            "none",
            *options,
        ]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)

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
    assert {check["name"] for check in told["checks"]} >= {"shrunk", "awkward"}
    assert told["resources"][0]["target"] == "sm_90"


def test_a_wrong_kernel_is_rejected_with_its_reason(judge):
    result = judge(RIGHT.replace("2.0 *", "2.1 *"), "--json", "--target", "h100")
    assert result.returncode == 1, result.stderr
    told = json.loads(result.stdout.splitlines()[-1])
    assert (told["status"], told["usable"]) == ("incorrect", False)
    assert told["findings"][0]["kind"] == "wrong_values"


def test_a_person_is_told_the_same(judge):
    result = judge("def (", "--target", "h200")
    assert result.returncode == 1
    assert "compile_error" in result.stdout and "syntax_error" in result.stdout


@pytest.mark.parametrize(
    "broken",
    [
        "def (\n",
        REFERENCE.replace("torch.relu(x)", "torch.relu(x, x, x)"),
        REFERENCE.replace("Model", "Net"),
    ],
    ids=["no Python", "fails to run", "no Model"],
)
def test_a_broken_reference_is_one_line_and_exit_2(judge, tmp_path, broken):
    (tmp_path / "broken.py").write_text(broken)
    result = judge(RIGHT, "--json", "--target", "h200", reference="broken.py")
    assert result.returncode == 2, result.stdout + result.stderr
    assert len(result.stderr.strip().splitlines()) == 1, result.stderr
    assert result.stdout == ""
