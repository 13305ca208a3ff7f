"""A family's budget allows for what every right kernel loses there, and for no more; integers read on the host stay."""

import pytest
import torch

from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.knowledge import load_hardware
from egg_graph.schema import KernelTask, Precision

REFERENCE = """import torch
from torch.nn import functional as F

ROWS, WIDTH = 48, 256


class Model(torch.nn.Module):
    def forward(self, x, y):
        return ANSWER


def get_inputs():
    return [torch.randn(ROWS, WIDTH), torch.SECOND]
"""
LABELS = "randint(0, WIDTH, (ROWS,))"


def cases(answer: str, second: str, precision: Precision) -> tuple[Problem, dict[str, Case]]:
    source = REFERENCE.replace("ANSWER", answer).replace("SECOND", second)
    task = KernelTask(reference=source, name="n", target=load_hardware("h200"), precision=precision)
    problem = Problem(task, 1, torch.device("cpu"))
    return problem, {case.family: case for case in problem.family_cases("shrunk")}


@pytest.mark.parametrize(
    ("answer", "wide"),
    [("F.cross_entropy(x.float(), y)", True), ("torch.softmax(x.float() + 0 * y[:, None], -1)", False)],
)
def test_a_logarithm_of_exponentials_far_below_zero_may_be_rounded_beside_the_largest(answer: str, wide: bool) -> None:
    """The loss of logits about -30000 is about ten; half a unit in the last place of one of those is 1e-3."""
    sunk = cases(answer, LABELS, "ieee")[1]["sunk"].leaves[0]
    loss = float(sunk.expected.abs().mean())
    assert (sunk.budget * loss > 1e-3) == wide


@pytest.mark.parametrize(("precision", "wide"), [("fp16", True), ("bf16", False), ("ieee", False)])
def test_products_of_thousandths_have_few_bits_in_fp16_alone(precision: Precision, wide: bool) -> None:
    tiny = cases("x @ y", "randn(WIDTH, 16)", precision)[1]["tiny"].leaves[0]
    assert (tiny.budget > 0.02) == wide
    negated = cases("x @ y", "randn(WIDTH, 16)", precision)[1]["negated"].leaves[0]
    assert negated.budget < 0.02


def test_integers_that_the_reference_reads_on_the_host_are_not_moved() -> None:
    """A negative place in a list counts from its end, which no kernel need know."""
    read = "torch.stack([x[place] for place in y.tolist()])"
    problem, families = cases(read, "randint(0, ROWS, (ROWS,))", "ieee")
    assert "integers_negated" not in families
    assert "indices" in problem.dropped_families["shrunk"]["integers_negated"]
    assert "integers_negated" in cases("x + 2 * y[:, None]", "randint(0, ROWS, (ROWS,))", "ieee")[1]
