"""Families at which the answer hangs on which of equal numbers is selected are left out."""

import pytest

from egg_graph.evaluator.problem.problem import Problem
from egg_graph.schema import Hardware, KernelTask

REFERENCE = """
import torch

TOKENS, EXPERTS = 256, 64

class Model(torch.nn.Module):
    def forward(self, scores):
        shares = torch.softmax(scores, dim=-1)
        best = shares.topk(4, dim=-1)
        return {answer}

def get_inputs():
    return [torch.randn(TOKENS, EXPERTS)]
"""
COUNTS = "torch.nn.functional.one_hot(best.indices, EXPERTS).float().sum((0, 1))"


@pytest.mark.parametrize(("answer", "judged"), [(COUNTS, False), ("best.values * 2", True)])
def test_a_family_is_left_out_where_equal_numbers_decide(h200: Hardware, answer: str, judged: bool) -> None:
    task = KernelTask(name="router", reference=REFERENCE.format(answer=answer), target=h200, precision="ieee")
    known = Problem(task, 3)
    assert known.validity.unevaluable == ""
    assert ("huge" in known.validity.families) is judged
    assert judged or "equal numbers" in known.dropped_families[known.family_shape]["huge"]
    assert "negated" in known.validity.families
