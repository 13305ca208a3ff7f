"""How large the numbers are to which a forward raises e: fp32 keeps little of a fraction of large ones, or none.

Products of two large inputs, as attention's scores, reach 1e11. Neighbouring fp32 numbers are thousands apart there:
rounding decides what a softmax makes of them, and a kernel that keeps a logarithm of their sum loses the sum.
"""

from __future__ import annotations

from typing import Any

from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.operators import EXPONENTIALS
from egg_graph.evaluator.problem.reference_runner import ReferenceRunner
from egg_graph.schema import Precision

NO_FRACTION = 2.0**24
"""From here on fp32 holds whole numbers only."""


class LargestExponent(TorchDispatchMode):
    """While active, looks for the largest finite number, of either sign, that an exponential is given."""

    def __init__(self) -> None:
        super().__init__()
        self.largest = 0.0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket.__name__ in EXPONENTIALS and args[0].numel():
            size = float(args[0].abs().nan_to_num(0.0, 0.0, 0.0).max())
            self.largest = max(self.largest, size)
        return func(*args, **(kwargs or {}))


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
