"""The domain of a task: whether infinities belong to it, and what is left of an answer where they do not.

Where a reference draws only finite numbers and makes no others of them, infinities in an input are a property of a
kernel and no part of its contract. Where it fills a mask with -inf, or takes the log of zero, they are.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.expected_leaf import ExpectedLeaf
from egg_graph.evaluator.problem.operators import VIEWS
from egg_graph.evaluator.problem.reference_runner import ReferenceRunner
from egg_graph.schema import Precision

NOT_LOOKED_AT = VIEWS | {"empty_strided", "new_empty", "new_empty_strided"}
"""Operators that may hand over memory which nobody wrote; what they fill or view is looked at where it is used."""


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
    ReferenceRunner(case.model, case.inputs, case.forward_seed, case.device).at(precision, recorder=numbers)
    return numbers.found


def holds_non_finite(values: Any) -> bool:
    """Whether a floating-point tensor among nested values holds infinities or NaN."""
    tensors = (x for x in tree_leaves(values) if isinstance(x, torch.Tensor))
    return any(_is_numeric(x) and not bool(torch.isfinite(x).all()) for x in tensors)


def without_non_finite(got: Any, leaf: ExpectedLeaf) -> Any:
    """An answer's leaf with the expected value wherever either of them is not finite.

    Of integers, which no infinity can show in, nothing is left; a leaf of another form stays as it is.
    """
    expected = leaf.expected
    if not isinstance(got, torch.Tensor) or (got.shape, got.dtype) != (expected.shape, leaf.dtype):
        return got
    if not _is_numeric(got):
        return expected.to(got.dtype)
    finite = torch.isfinite(got) & torch.isfinite(expected)
    return torch.where(finite, got, expected.to(got.dtype))


def _is_numeric(x: torch.Tensor) -> bool:
    return x.is_floating_point() or x.is_complex()
