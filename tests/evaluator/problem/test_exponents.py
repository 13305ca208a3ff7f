"""Families whose numbers an exponential cannot tell apart in fp32 are left out where the reference makes them."""

import pytest
import torch

from egg_graph.evaluator.problem.problem import Problem
from egg_graph.knowledge import load_hardware
from egg_graph.schema import KernelTask

REFERENCE = """import torch
from torch import nn
from torch.nn import functional as F

N = 64


class Model(nn.Module):
    def forward(self, q, k):
        return ANSWER


def get_inputs():
    return [torch.randn(N, 32), torch.randn(N, 32)]
"""


@pytest.mark.parametrize(
    ("answer", "beyond"),
    [
        ("torch.softmax(q @ k.T, -1)", True),
        ("F.scaled_dot_product_attention(q[None], k[None], k[None])[0]", True),
        ("(lambda s: torch.exp(s - s.amax(-1, keepdim=True)).sum(-1))(q @ k.T)", True),
        ("(lambda s: torch.exp(0.5 * (s - s.amax(-1, keepdim=True))).sum(-1))(q * k)", True),
        ("(lambda s: torch.exp(s - s.amax(-1, keepdim=True)).sum(-1))(q + k)", False),
        ("torch.softmax(q + k, -1)", False),
        ("q @ k.T", False),
    ],
)
def test_scores_of_which_fp32_keeps_no_fraction_are_no_family(answer: str, beyond: bool) -> None:
    task = KernelTask(reference=REFERENCE.replace("ANSWER", answer), name="n", target=load_hardware("h200"))
    problem = Problem(task, 1, torch.device("cpu"))
    families = {case.family for case in problem.family_cases("shrunk")}
    assert families >= {"large", "negated", "outlier"}
    assert ("keeps no fraction" in problem.dropped_families["shrunk"].get("huge", "")) == beyond
    assert ("huge" in families) != beyond
