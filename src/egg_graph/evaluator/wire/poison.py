"""The NaN that fresh memory is filled with, so that an element which no kernel wrote is recognised."""

from __future__ import annotations

import torch

POISON_BITS = {
    torch.float16: 0x7E5A,
    torch.bfloat16: 0x7FDE,
    torch.float32: 0x7FDEDEAD,
    torch.float64: 0x7FFBDEADDEADDEAD,
}
"""The NaN that fresh memory is filled with, by dtype; arithmetic on numbers never makes it."""
_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def poison_(tensor: torch.Tensor) -> torch.Tensor:
    """Fill with the poison NaN (integers: a sentinel, booleans: True), in place."""
    bits = POISON_BITS.get(tensor.dtype)
    if bits is None:
        return tensor if tensor.dtype.is_complex else tensor.fill_(tensor.dtype == torch.bool or 90)
    as_int = _BITS[tensor.dtype.itemsize]
    signed = bits - (1 << (8 * tensor.dtype.itemsize)) if bits >> (8 * tensor.dtype.itemsize - 1) else bits
    tensor.view(as_int).fill_(signed)
    return tensor


def poisoned(tensor: torch.Tensor) -> torch.Tensor:
    """Mask of elements that still hold the poison."""
    bits = POISON_BITS.get(tensor.dtype)
    if bits is None:
        return torch.zeros(tensor.shape, dtype=torch.bool, device=tensor.device)
    return tensor.contiguous().view(_BITS[tensor.dtype.itemsize]) == bits
