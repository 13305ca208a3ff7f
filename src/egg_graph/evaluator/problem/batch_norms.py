"""Answer a batch norm under fake tensors as one operator: PyTorch's own rule in Python takes milliseconds a call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode

ARGUMENTS = ("input", "running_mean", "running_var", "weight", "bias", "training")
"""First arguments of `torch.nn.functional.batch_norm`, in order."""


class WholeBatchNorms(TorchFunctionMode):
    """While active, `functional.batch_norm` of a fake tensor gives an answer of the right shape and computes nothing.

    Operands that do not fit are left to PyTorch, which refuses them.
    """

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        call = {**dict(zip(ARGUMENTS, args, strict=False)), **kwargs}
        if function is not torch.nn.functional.batch_norm or not _fits(call):
            return function(*args, **kwargs)
        x = call["input"]
        return x.new_empty(x.shape)


def _fits(call: Mapping[str, Any]) -> bool:
    """Whether every operand has one element a channel of [batch, channels, …], and a channel several where it must."""
    x = call["input"]
    if not isinstance(x, FakeTensor) or x.dim() < 2:
        return False
    several = not call.get("training") or x.numel() > x.shape[1]
    operands = [call.get(name) for name in ARGUMENTS[1:5]]
    return several and all(operand is None or operand.shape == x.shape[1:2] for operand in operands)
