"""How large the numbers are to which a forward raises e: fp32 keeps little of a fraction of large ones, or none.

Products of two large inputs, as attention's scores, reach 1e11. Neighbouring fp32 numbers are thousands apart there:
rounding decides what a softmax makes of them, and a kernel that keeps a logarithm of their sum loses the sum.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakIdKeyDictionary

from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.operators import EXPONENTIALS
from egg_graph.evaluator.problem.reference_runner import ReferenceRunner
from egg_graph.schema import Precision

NO_FRACTION = 2.0**24
"""From here on fp32 holds whole numbers only."""


DIFFERENCES = frozenset({"add", "add_", "sub", "sub_", "rsub"})
"""Operators by which the largest number is taken from all others before e is raised to them."""
PASSED_ON = DIFFERENCES | {"mul", "mul_", "div", "div_", "where", "masked_fill", "masked_fill_", "_to_copy", "view"}
"""Operators behind which it is still known how large the numbers were of which a difference was taken."""


class LargestExponent(TorchDispatchMode):
    """While active, looks for the largest finite number, of either sign, that an exponential is given, or of which a
    difference was taken that it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.largest = 0.0
        self._differences = WeakIdKeyDictionary()
        """Tensors -> the largest number of which they are differences."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if name in EXPONENTIALS and args[0].numel():
            self.largest = max(self.largest, _size(args[0]), self._differences.get(args[0], 0.0))
        answer = func(*args, **(kwargs or {}))
        if name in PASSED_ON and isinstance(answer, torch.Tensor) and answer.is_floating_point():
            tensors = [x for x in args if isinstance(x, torch.Tensor) and x.is_floating_point()]
            known = [self._differences.get(x, 0.0) for x in tensors]
            if name in DIFFERENCES and len(tensors) > 1:
                known += map(_size, tensors)
            if (largest := max(known, default=0.0)) > 0.0:
                self._differences[answer] = largest
        return answer


def _size(x: torch.Tensor) -> float:
    """The largest finite number in a tensor, of either sign; 0 if there is none."""
    return float(x.abs().nan_to_num(0.0, 0.0, 0.0).max()) if x.numel() else 0.0


def largest_exponent(case: Case, precision: Precision) -> float:
    """The largest number that an exponential of the forward takes on a case's inputs; 0 if it has none.

    Raises:
        BadInput: if forward fails.
    """
    if not case.operators & EXPONENTIALS:
        return 0.0
    exponents = LargestExponent()
    with sdpa_kernel(SDPBackend.MATH):
        ReferenceRunner.of(case).at(precision, recorder=exponents)
    return exponents.largest
