"""What the plan of calls decides: which call meets what."""

from egg_graph.evaluator.problem.plan import interpreter_calls
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.schema import Hardware, KernelTask
from tests.graph.scripted import REFERENCE


def test_the_first_call_meets_poison_and_later_ones_meet_leftovers_too(h200: Hardware) -> None:
    """An element that nobody wrote is named in the first call, whatever the seed, and not only told as wrong."""
    task = KernelTask(name="relu", reference=REFERENCE, target=h200)
    for seed in range(4):
        problem = Problem(task, seed)
        first, *later = interpreter_calls(problem, problem.family_shape, everything=True)
        assert not first.manner.leftovers
        assert {call.manner.leftovers for call in later} == {True, False}


MASKED = """import torch
import torch.nn as nn

ROWS = 1

class Model(nn.Module):
    def forward(self, x, other, mask):
        return torch.where(mask[:, None], x + other, x)

def get_inputs():
    return [torch.randn(ROWS, 32), torch.randn(ROWS, 32), torch.rand(ROWS) < 0.5]
"""


def test_kernels_do_nothing_where_the_answer_is_not_among_the_inputs(h200: Hardware) -> None:
    """A mask that lets nothing through leaves everything as it was, with kernels and without."""
    task = KernelTask(name="masked", reference=MASKED, target=h200)
    seen = 0
    for seed in range(6):
        problem = Problem(task, seed)
        cases = [*problem.cases(problem.family_shape), *problem.family_cases(problem.family_shape)]
        silent = interpreter_calls(problem, problem.family_shape, everything=True)[-1]
        assert silent.silent
        masks = [bool(case.inputs[2].any()) for case in cases]
        seen += masks[0] is False and any(masks)
        assert bool(silent.case.inputs[2].any()) or not any(masks)
    assert seen, "every first mask lets something through"
