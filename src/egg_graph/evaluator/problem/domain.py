"""The domain of a task: whether infinities belong to it, and what is left of an answer where they do not.

Where a reference draws only finite numbers and makes no others of them, infinities in an input, or in an answer that
overflows on other inputs, are a property of a kernel and no part of its contract. Where it fills a mask with -inf, or
takes the log of zero, they are.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.expected_leaf import ExpectedLeaf
from egg_graph.evaluator.problem.operators import VIEWS
from egg_graph.evaluator.problem.reference_runner import ReferenceRunner
from egg_graph.schema import Precision

NOT_LOOKED_AT = VIEWS | {"empty_strided", "new_empty", "new_empty_strided"}
"""Operators that may hand over memory which nobody wrote; what they fill or view is looked at where it is used."""
STAND_INS = (1.0, -1.0, 1e3, -1e3)
"""Numbers that are put in the place of infinities, to see what these reach."""


class NonFiniteNumbers(TorchDispatchMode):
    """While active, looks for infinities and NaN in what operators take and give."""

    def __init__(self) -> None:
        super().__init__()
        self.found = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        answer = func(*args, **(kwargs or {}))
        if not self.found and func.overloadpacket.__name__ not in NOT_LOOKED_AT:
            self.found = holds_non_finite((args, answer))
        return answer


def makes_non_finite(case: Case, precision: Precision) -> bool:
    """Whether a reference draws infinities or NaN, holds them in its weights, or makes them on the way.

    Args:
        case: on the inputs as `get_inputs` draws them.
        precision: the task's policy.

    Raises:
        BadInput: if forward fails.
    """
    if holds_non_finite((case.inputs, case.state)):
        return True
    numbers = NonFiniteNumbers()
    ReferenceRunner.of(case).at(precision, recorder=numbers)
    return numbers.found


def holds_non_finite(values: Any) -> bool:
    """Whether a floating-point tensor among nested values holds infinities or NaN."""
    tensors = (x for x in tree_leaves(values) if isinstance(x, torch.Tensor))
    return any(_is_numeric(x) and not bool(torch.isfinite(x).all()) for x in tensors)


def without_non_finite(got: Any, leaf: ExpectedLeaf, touched: torch.Tensor | None = None) -> Any:
    """An answer's leaf with the expected value wherever either of them is not finite, or infinities reach it.

    Of integers, which no infinity can show in, nothing is left; a leaf of another form stays as it is.

    Args:
        got: what the candidate returned.
        leaf: what it must be.
        touched: where infinities reach it, as `touched_by_infinities` found; None for nowhere.
    """
    expected = leaf.expected
    if not isinstance(got, torch.Tensor) or (got.shape, got.dtype) != (expected.shape, leaf.dtype):
        return got
    if not _is_numeric(got):
        return expected.to(got.dtype)
    judged = torch.isfinite(got) & torch.isfinite(expected)
    if touched is not None:
        judged &= ~touched
    return torch.where(judged, got, expected.to(got.dtype))


def touched_by_infinities(case: Case, precision: Precision) -> list[torch.Tensor]:
    """For each leaf of the answer a mask of the elements that hang on the infinities and NaN of the inputs.

    They are those that change when finite numbers stand there. (A sign is finite, whatever it is the sign of.)

    Raises:
        BadInput: if forward fails.
    """
    own = _answered(case, case.inputs, precision)
    masks = [torch.zeros(leaf.shape, dtype=torch.bool, device=leaf.device) for leaf in own]
    for number in STAND_INS:
        inputs = tree_map_only(torch.Tensor, partial(_with_finite, number=number), case.inputs)
        for mask, before, after in zip(masks, own, _answered(case, inputs, precision), strict=True):
            mask |= (before != after) & ~(torch.isnan(before) & torch.isnan(after))
    return masks


def _answered(case: Case, inputs: list[Any], precision: Precision) -> list[torch.Tensor]:
    return ReferenceRunner.of(case, inputs).at(precision).leaves


def _with_finite(x: torch.Tensor, number: float) -> torch.Tensor:
    return torch.where(torch.isfinite(x), x, torch.full_like(x, number)) if _is_numeric(x) else x


def _is_numeric(x: torch.Tensor) -> bool:
    return x.is_floating_point() or x.is_complex()
