"""What right kernels lose on a family of inputs beyond what PyTorch's own error shows.

| where | what is lost |
| --- | --- |
| the answer is a logarithm of exponentials of large numbers | a kernel that keeps the logarithm of their sum rounds it beside the largest: a unit in the last place of that in fp32. PyTorch subtracts the largest first |
| products of small numbers in fp16 | below 6e-5 fp16 has fewer bits: one product of two thousandths is off by 3 %. PyTorch multiplies in fp32 |
"""  # noqa: E501

from __future__ import annotations

from dataclasses import replace

import torch
from torch.utils._pytree import tree_leaves

from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.expected_leaf import ExpectedLeaf
from egg_graph.evaluator.problem.operators import PRODUCTS
from egg_graph.evaluator.problem.roundings import FP32_ULP

LOGARITHMS = frozenset({"_log_softmax", "logsumexp", "log", "log2"})
"""Operators that take the logarithm of a sum of exponentials, or may."""
SMALLEST_NORMAL, SPACING = 2.0**-14, 2.0**-24
"""Of float16: the smallest number with all of its bits, and the distance between two smaller ones."""
MOST_LOST = 0.1
"""Largest relative error that is allowed for these losses."""


def widen(case: Case, exponent: float) -> list[ExpectedLeaf]:
    """The leaves of a family's case, whose budgets allow for what every right kernel may lose there.

    Args:
        case: on inputs of a family.
        exponent: the largest number that an exponential of the forward takes.
    """
    lost = FP32_ULP * exponent if case.operators & LOGARITHMS else 0.0
    part = _lost_by_products_in_fp16(case)
    return [_allowing(leaf, lost, part) for leaf in case.leaves]


def _lost_by_products_in_fp16(case: Case) -> float:
    """Relative error of one product of two inputs in fp16, where it has lost bits; 0 where it has not."""
    if not case.operators & PRODUCTS:
        return 0.0
    halves = [x for x in tree_leaves(case.inputs) if isinstance(x, torch.Tensor) and x.dtype == torch.float16]
    squares = [float(x.float().square().mean()) for x in halves if x.numel()]
    return max((SPACING / x for x in squares if 0.0 < x < SMALLEST_NORMAL), default=0.0)


def _allowing(leaf: ExpectedLeaf, lost: float, part: float) -> ExpectedLeaf:
    """The leaf with room for an absolute error and a relative one."""
    if leaf.exact or not (lost or part):
        return leaf
    expected = torch.nan_to_num(leaf.expected.real.double(), 0.0, 0.0, 0.0)
    size = float(expected.square().mean().sqrt())
    part = min(MOST_LOST, max(part, lost / size if size else 0.0))
    if part <= leaf.budget:
        return leaf
    return replace(leaf, budget=part, bias_budget=max(leaf.bias_budget, part), slack=max(leaf.slack, lost, part * size))
