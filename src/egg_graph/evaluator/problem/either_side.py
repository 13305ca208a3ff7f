"""Elements of an answer that hang on rounding: an integer next to a half, the sign of a number that is all but zero.

Where the reference itself answers otherwise on inputs that are a few ulp away, a kernel that adds in another order may
answer either way.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch.utils._pytree import tree_leaves

from egg_graph.evaluator.problem.expected_leaf import ExpectedLeaf, Jumps
from egg_graph.evaluator.problem.operators import JUMPS
from egg_graph.evaluator.problem.reference_runner import ExactAnswer, ReferenceRunner
from egg_graph.evaluator.problem.roundings import FP32_ULP

WHOLE = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
"""Types of the integers that a number may be rounded to."""
DRAWS, ULPS, MOST_ELEMENTS = 8, 128, 1 << 24
"""Nearby inputs that show which elements hang on rounding, how far off they are [ulp of fp32], and the most elements of
such an answer."""
FEW = 1024
"""At most one floating-point number in this many may jump; where more do, it is no rounding-size number that decides,
but equal values, say, whose treatment is a part of the problem."""


def with_either_side(runner: ReferenceRunner, leaves: list[ExpectedLeaf], exact: ExactAnswer) -> list[ExpectedLeaf]:
    """The leaves, whose elements that hang on rounding may be those of the other side, too.

    Args:
        runner: runs the reference.
        leaves: expected in fp64, with their budgets.
        exact: the answer in fp64.
    """
    inputs = [x for x in tree_leaves(runner.inputs) if isinstance(x, torch.Tensor)]
    jumps = bool(exact.operators & JUMPS) and all(x.numel() <= MOST_ELEMENTS for x in inputs)
    places = [i for i, leaf in enumerate(leaves) if _may_be_rounded(leaf) or (jumps and _may_jump(leaf))]
    if not places or not any(x.is_floating_point() for x in inputs):
        return leaves
    bounds = {i: (leaves[i].expected, leaves[i].expected) for i in places}
    for near in runner.nearby(exact, ULPS * FP32_ULP, DRAWS):
        bounds = {i: (torch.minimum(a, near[i]), torch.maximum(b, near[i])) for i, (a, b) in bounds.items()}
    made = list(leaves)
    for i, (least, greatest) in bounds.items():
        made[i] = (_with_rounded_integers if leaves[i].exact else _with_jumps)(leaves[i], least, greatest)
    return made


def _may_be_rounded(leaf: ExpectedLeaf) -> bool:
    countable = leaf.dtype in WHOLE and leaf.selection is None
    return countable and 0 < leaf.expected.numel() <= MOST_ELEMENTS


def _may_jump(leaf: ExpectedLeaf) -> bool:
    return leaf.dtype.is_floating_point and FEW <= leaf.expected.numel() <= MOST_ELEMENTS


def _with_rounded_integers(leaf: ExpectedLeaf, least: torch.Tensor, greatest: torch.Tensor) -> ExpectedLeaf:
    """Integers that a number next to a half was rounded to may be those of its other side, too."""
    if not bool((least != greatest).any()):
        return leaf
    next_to = greatest - least <= 1  # else it is no rounding that decides
    sides = torch.where(next_to, least, leaf.expected), torch.where(next_to, greatest, leaf.expected)
    return replace(leaf, rounded=sides)


def _with_jumps(leaf: ExpectedLeaf, least: torch.Tensor, greatest: torch.Tensor) -> ExpectedLeaf:
    """A few elements that move further than any element may be off may have the values that they move to."""
    size = leaf.expected.abs().nan_to_num(0.0, 0.0, 0.0)
    most = leaf.slack + 8 * leaf.budget * (size + size.square().mean().sqrt())
    moves = (greatest - leaf.expected > most) | (leaf.expected - least > most)
    (places,) = moves.reshape(-1).nonzero(as_tuple=True)
    if not 0 < places.numel() <= moves.numel() // FEW:
        return leaf
    sides = torch.stack([x.reshape(-1)[places] for x in (least, greatest)])
    return replace(leaf, jumps=Jumps(places, sides))
