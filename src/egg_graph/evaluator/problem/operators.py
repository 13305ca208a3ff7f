"""Which ATen operators a forward of the reference runs, and whether it converts what an integer cannot hold."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

UNDEFINED = "conversion of what no integer is"
"""Among the names where NaN, an infinity or a number out of range becomes an integer: every machine does it its way."""
RECURRENCE, MANY = "recurrence", 200
"""Among the names where so many operators run: most likely step after step, and a kernel may take steps together."""


class OperatorWatch(TorchDispatchMode):
    """Names of the ATen operators that run while it is active."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        answer = func(*args, **(kwargs or {}))
        self.names.add(func.overloadpacket.__name__)
        self.count += 1
        if self.count > MANY:
            self.names.add(RECURRENCE)
        if func is torch.ops.aten._to_copy.default and _is_undefined(args[0], answer):
            self.names.add(UNDEFINED)
        return answer


def _is_undefined(x: torch.Tensor, converted: torch.Tensor) -> bool:
    if not x.is_floating_point() or converted.is_floating_point() or converted.is_complex() or not x.numel():
        return False
    if converted.dtype == torch.bool:
        return False
    limits = torch.iinfo(converted.dtype)
    low, high = (float(bound) for bound in x.aminmax())
    return not (limits.min <= low and high <= limits.max)  # NaN is in no range
