"""Poison: the bit patterns that stand for undefined values, recognisable wherever they end up.

A float's poison is a quiet NaN with a payload. Arithmetic passes the payload on, so an undefined value can be told from
a NaN that was computed.
"""

from typing import Any

import numpy as np
import torch

from egg_graph.evaluator.interpreter.number_formats import is_float8
from egg_graph.evaluator.wire.poison import POISON_BITS, poison_

FLOAT_BITS = {dtype.itemsize: POISON_BITS[dtype] for dtype in (torch.float16, torch.float32, torch.float64)}
"""Size of an IEEE float [byte] -> its poison."""
FLOAT8_BITS = 0x7F
BFLOAT16_PAYLOAD = 6
"""Bits of a quiet bfloat16 NaN's payload, which are the highest of a wider one's that was made of it."""
INTEGERS = {1: 90, 2: 23130, 4: 1073754169, 8: 1073754169}
"""Size of an integer [byte] -> its poison: far outside of any tensor, yet harmless in address arithmetic."""


def undefined(shape: tuple[int, ...], dtype: np.dtype[Any], element: str = "") -> np.ndarray:
    """Make an array of undefined values: poison for numbers, True for booleans.

    Args:
        shape: of the array.
        dtype: numpy's dtype of the bits.
        element: Triton's name of the element type; it tells bfloat16 and float8 from integers of their size.
    """
    if is_float8(element):
        return np.full(shape, FLOAT8_BITS, np.uint8)
    if element == "bf16":
        return np.full(shape, POISON_BITS[torch.bfloat16], np.uint16)
    if dtype.kind == "f":
        bits = np.full((1,), FLOAT_BITS[dtype.itemsize], f"uint{8 * dtype.itemsize}")
        return np.broadcast_to(bits.view(dtype), shape or (1,)).reshape(shape)
    if dtype.kind in "iu":
        return np.full(shape, INTEGERS[dtype.itemsize], dtype)
    return np.ones(shape, dtype)


def is_poisoned(values: np.ndarray) -> np.ndarray:
    """Return for each element of a float array whether it is undefined: a NaN with a payload.

    The NaN with all bits set is a computed one: PyTorch's vectorised casts to bfloat16 make it, and NVIDIA GPUs.
    """
    nan = np.isnan(values)
    if not nan.any():
        return nan
    size = values.dtype.itemsize
    mantissa = {2: 0x01FF, 4: 0x003FFFFF, 8: 0x0007FFFFFFFFFFFF}[size]
    bits = np.ascontiguousarray(values).view(f"uint{8 * size}") & np.dtype(f"uint{8 * size}").type(mantissa)
    return nan & (bits != 0) & (bits < bits.dtype.type(mantissa & ~(mantissa >> BFLOAT16_PAYLOAD)))


def fill_with_poison(flat: torch.Tensor) -> None:
    """Fill a one-dimensional tensor of any dtype with poison."""
    if flat.dtype in POISON_BITS:
        poison_(flat)
    elif flat.dtype.is_floating_point:
        flat.view(torch.uint8).fill_(FLOAT8_BITS)
    elif flat.dtype.is_complex:
        fill_with_poison(torch.view_as_real(flat).reshape(-1))
    elif flat.dtype == torch.bool:
        flat.fill_(True)
        flat[::7].fill_(False)  # mixed, because fresh memory holds neither only True nor only False
    else:
        flat.fill_(INTEGERS[flat.element_size()])
