"""Poison: the NaN that fills fresh memory, so that elements which no kernel wrote are recognised."""

from __future__ import annotations

from collections.abc import Mapping

import torch

POISON_BITS = {
    torch.float16: 0x7E5A,
    torch.bfloat16: 0x7FDE,
    torch.float32: 0x7FDEDEAD,
    torch.float64: 0x7FFBDEADDEADDEAD,
}
"""Bits of the poison NaN by dtype; arithmetic never produces them."""
INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Size of an element [bytes] -> the integers that its bits are looked at as."""


def poison_(tensor: torch.Tensor) -> torch.Tensor:
    """Fill a tensor in place with the poison NaN; booleans with True, other dtypes with 90, complex ones not at all."""
    bits = POISON_BITS.get(tensor.dtype)
    if bits is None:
        return tensor if tensor.dtype.is_complex else tensor.fill_(tensor.dtype == torch.bool or 90)
    tensor.view(INTEGERS[tensor.dtype.itemsize]).fill_(bits)
    return tensor


def poisoned(tensor: torch.Tensor) -> torch.Tensor:
    """Return a mask of the elements that still hold the poison NaN; all False for dtypes not in `POISON_BITS`."""
    return holding(tensor, POISON_BITS)


def holding(tensor: torch.Tensor, patterns: Mapping[torch.dtype, int]) -> torch.Tensor:
    """Return a mask of the elements that hold the bits which `patterns` has for their dtype; all False if it has none.

    Args:
        tensor: of any shape and strides.
        patterns: bits by dtype, the highest of them 0.
    """
    if tensor.dtype not in patterns:
        return torch.zeros(tensor.shape, dtype=torch.bool, device=tensor.device)
    return tensor.contiguous().view(INTEGERS[tensor.dtype.itemsize]) == patterns[tensor.dtype]
