"""The graph with the real evaluator: a kernel with a wrong mask is caught, repaired, swept and finished."""

import pytest

from egg_graph import Context, build_egg_graph
from egg_graph.schema import Analysis, Diagnosis, Draft

pytestmark = pytest.mark.slow

REFERENCE = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(256, 1024)]
"""
KERNEL = """import torch
import triton
import triton.language as tl
from torch import nn

CONFIG = {"BLOCK": 1024}
SPACE = {"tensor_tiling": {"BLOCK": [512, 1024, 2048]}}


@triton.jit
def relu_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n - MISSED
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(y_ptr + offsets, tl.maximum(x, 0.0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        n = x.numel()
        relu_kernel[(triton.cdiv(n, CONFIG["BLOCK"]),)](x, y, n, BLOCK=CONFIG["BLOCK"])
        return y
"""


class Hand:
    """A person at the keyboard: forgets the last element, then mends it."""

    name = "hand"

    def __init__(self):
        self.seen = []

    def analyze(self, brief):
        return Analysis(worth_optimizing=False, bottleneck="DRAM traffic, which is the least there can be")

    def write(self, brief):
        return Draft(source=KERNEL.replace(" - MISSED", " - 1" if brief.mode == "seed" else ""))

    def debug(self, brief):
        self.seen = [finding.kind for finding in brief.evaluation.findings]
        return Diagnosis(critical_issue="The last element is masked out.", modification_plan="Compare with n.")


@pytest.mark.slow
def test_caught_repaired_swept_and_finished(evaluator):
    team = Hand()
    graph = build_egg_graph(team=team, evaluator=evaluator)
    state = graph.invoke({"reference": REFERENCE, "name": "relu"}, context=Context(target="h100", device="none"))
    seed, repair, *tuned = state["attempts"]
    assert seed.evaluation.status == "incorrect" and "unwritten_output" in team.seen
    assert repair.candidate.mode == "repair" and repair.improved
    assert all(a.candidate.mode == "tune" for a in tuned)
    assert state["status"] == "correct" and state["evaluation"].candidate == state["best"].id
    assert state["kernel"] == state["best"].source and "CONFIG" not in state["kernel"] and "BLOCK=" in state["kernel"]
    assert "no speed was measured" in state["verdict"]
