"""Poison: the NaN that fills fresh memory, so that elements which no kernel wrote are recognised."""

from __future__ import annotations

import torch

POISON_BITS = {
    torch.float16: 0x7E5A,
    torch.bfloat16: 0x7FDE,
    torch.float32: 0x7FDEDEAD,
    torch.float64: 0x7FFBDEADDEADDEAD,
}
"""Bits of the poison NaN by dtype; arithmetic never produces them."""
_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def poison_(tensor: torch.Tensor) -> torch.Tensor:
    """Fill a tensor in place with the poison NaN; booleans with True, other dtypes with 90, complex ones not at all."""
    bits = POISON_BITS.get(tensor.dtype)
    if bits is None:
        return tensor if tensor.dtype.is_complex else tensor.fill_(tensor.dtype == torch.bool or 90)
    as_int = _BITS[tensor.dtype.itemsize]
    signed = bits - (1 << (8 * tensor.dtype.itemsize)) if bits >> (8 * tensor.dtype.itemsize - 1) else bits
    tensor.view(as_int).fill_(signed)
    return tensor


def poisoned(tensor: torch.Tensor) -> torch.Tensor:
    """Return a mask of the elements that still hold the poison NaN; all False for dtypes not in `POISON_BITS`."""
    bits = POISON_BITS.get(tensor.dtype)
    if bits is None:
        return torch.zeros(tensor.shape, dtype=torch.bool, device=tensor.device)
    return tensor.contiguous().view(_BITS[tensor.dtype.itemsize]) == bits
