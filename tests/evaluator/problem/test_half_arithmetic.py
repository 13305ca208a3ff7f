"""Budgets at 16 bits allow for what kernels do in 16 bits, and for no less than that."""

import pytest
import torch

from egg_graph.evaluator.problem.half_arithmetic import HalfArithmetic
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.knowledge import load_hardware
from egg_graph.schema import KernelTask, Precision

REFERENCE = """
import torch

class Model(torch.nn.Module):
    def forward(self, x, y):
        return ANSWER

ROWS, WIDTH = 48, 128

def get_inputs():
    return [torch.randn(ROWS, WIDTH), torch.randn(WIDTH, 32)]
"""
ATTENTION = "torch.softmax(x.float(), -1) @ y.float()"


def budget(answer: str, precision: Precision) -> float:
    task = KernelTask(
        reference=REFERENCE.replace("ANSWER", answer), name="n", target=load_hardware("h200"), precision=precision
    )
    return Problem(task, 1, torch.device("cpu")).cases("shrunk")[0].leaves[0].budget


@pytest.mark.parametrize(
    ("answer", "precision", "least", "most"),
    [
        (ATTENTION, "bf16", 1e-3, 1e-2),
        (ATTENTION, "fp16", 2e-4, 1e-3),
        (ATTENTION, "ieee", 0.0, 1e-5),
        ("torch.softmax(x.float(), -1) * 2 + 0 * y.sum().float()", "bf16", 0.0, 1e-5),  # no product
        ("x.float() @ y.float()", "bf16", 0.0, 1e-5),  # its operands have 16 bits already
    ],
)
def test_operands_of_products_may_be_rounded_to_sixteen_bits(
    answer: str, precision: Precision, least: float, most: float
) -> None:
    assert least <= budget(answer, precision) <= most


def test_a_sum_of_float16_may_be_added_up_in_float16() -> None:
    sums = "(x[:, :, None] * y).sum(1)"
    assert budget(sums, "fp16") > 1.05e-3 > budget("(x @ y)", "fp16")


@pytest.mark.parametrize("dims", [None, [0], [1, -1], [2]])
@pytest.mark.parametrize("keepdim", [False, True])
def test_sums_by_pairs_have_the_shape_of_pytorchs(dims: list[int] | None, keepdim: bool) -> None:
    x = torch.arange(30.0).reshape(2, 3, 5).half()
    for method in ("sum", "mean"):
        keywords = {} if dims is None else {"dim": dims, "keepdim": keepdim}
        with HalfArithmetic(torch.float16) as halves:
            got = getattr(x, method)(**keywords)
        assert halves.used and got.shape == getattr(x, method)(**keywords).shape
        assert torch.equal(got, getattr(x, method)(**keywords)), "small integers are exact in any order"
