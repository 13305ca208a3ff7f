"""Whether an answer depends on which of equal numbers an operator selects: PyTorch promises none, and kernels differ.

A softmax of large scores is 0 nearly everywhere, so that the second best expert is any of the rest.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.null_answers import NullAnswer, is_accepted
from egg_graph.evaluator.problem.reference_runner import ReferenceRunner
from egg_graph.schema import Precision

aten = torch.ops.aten
DIMENSION: dict[Any, tuple[int, int]] = {
    aten.topk.default: (2, -1),
    aten.sort.default: (1, -1),
    aten.max.dim: (1, -1),
    aten.min.dim: (1, -1),
}
"""Operators that answer with values and indices -> where their dimension stands in the call, and its default."""
NAMES = frozenset(operator.overloadpacket.__name__ for operator in DIMENSION)
"""Their names."""


class OtherOfEquals(TorchDispatchMode):
    """While active, these operators look through their input from its other end, so that of equal numbers they select
    others."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func not in DIMENSION or not args[0].dim():
            return func(*args, **kwargs)
        place, default = DIMENSION[func]
        dim = args[place] if len(args) > place else kwargs.get("dim", default)
        values, indices = func(args[0].flip(dim), *args[1:], **kwargs)
        return values, args[0].shape[dim] - 1 - indices


def depends_on_choice(case: Case, precision: Precision) -> bool:
    """Whether PyTorch's own answer is wrong by the case's budgets once others of equal numbers are selected.

    Raises:
        BadInput: if forward fails.
    """
    if not case.operators & NAMES:
        return False
    other = ReferenceRunner.of(case).at(precision, recorder=OtherOfEquals())
    return not is_accepted(NullAnswer("another of equal numbers", other.leaves), case)
