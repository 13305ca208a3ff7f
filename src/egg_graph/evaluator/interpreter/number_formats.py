"""Number formats that numpy lacks, bit for bit: bfloat16, float8, TF32, and the poison of undefined values.

bfloat16 is held as uint16 and float8 as uint8, as in Triton's interpreter.
"""

from functools import cache
from typing import Any

import numpy as np

POISON_FLOAT32 = 0x7FDEDEAD
"""A quiet NaN with a payload: arithmetic hands the payload on, so an undefined value stays recognisable."""
POISON_BITS = {2: 0x7E5A, 4: POISON_FLOAT32, 8: 0x7FFBDEADDEADDEAD}
POISON_BFLOAT16 = 0x7FDE
POISON_INTEGER = {1: 90, 2: 23130, 4: 1073754169, 8: 1073754169}
"""Sentinels of undefined integers by size [byte]; far outside any tensor, yet harmless in address arithmetic."""

_FLOAT8 = {
    "fp8e4nv": (4, 3, 7, "nan_only"),
    "fp8e5": (5, 2, 15, "ieee"),
    "fp8e4b8": (4, 3, 8, "fnuz"),
    "fp8e5b16": (5, 2, 16, "fnuz"),
}
"""Name -> exponent bits, mantissa bits, bias, and which codes are not numbers."""


def bfloat16_to_float32(bits: np.ndarray) -> np.ndarray:
    """uint16 -> float32, exact."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def float32_to_bfloat16(values: np.ndarray, *, truncate: bool = False) -> np.ndarray:
    """float32 -> uint16, to nearest even (or toward zero); NaN keeps the upper half of its payload."""
    u = np.ascontiguousarray(values, np.float32).view(np.uint32)
    upper = (u >> 16).astype(np.uint16)
    if truncate:
        return upper
    rounded = ((u + np.uint32(0x7FFF) + ((u >> 16) & np.uint32(1))) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), upper | np.uint16(0x40), rounded)


def truncate_to_tf32(values: np.ndarray) -> np.ndarray:
    """Drop the 13 low mantissa bits, as Hopper's wgmma does with fp32 operands."""
    u = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return (u & np.uint32(0xFFFFE000)).view(np.float32)


def round_to_tf32(values: np.ndarray) -> np.ndarray:
    """Round to nearest, ties away from zero (`cvt.rna.tf32.f32`)."""
    u = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = ((u + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
    return np.where(np.isfinite(values), rounded, values).astype(np.float32)


@cache
def _float8_table(name: str) -> np.ndarray:
    """All 256 codes of a float8 format as float32."""
    exponent_bits, mantissa_bits, bias, special = _FLOAT8[name]
    code = np.arange(256)
    sign = np.where(code & 0x80, -1.0, 1.0)
    exponent = (code >> mantissa_bits) & ((1 << exponent_bits) - 1)
    fraction = (code & ((1 << mantissa_bits) - 1)) / (1 << mantissa_bits)
    value = sign * np.where(exponent == 0, fraction * 2.0 ** (1 - bias), (1 + fraction) * 2.0 ** (exponent - bias))
    if special == "ieee":
        top = exponent == (1 << exponent_bits) - 1
        value = np.where(top, np.where(fraction == 0, sign * np.inf, np.nan), value)
    elif special == "nan_only":
        value[[0x7F, 0xFF]] = np.nan
    else:
        value[0x80] = np.nan
    return value.astype(np.float32)


def is_float8(name: str) -> bool:
    """Whether a Triton dtype's name is a float8 format known here."""
    return name in _FLOAT8


def float8_to_float32(codes: np.ndarray, name: str) -> np.ndarray:
    """uint8 -> float32, exact."""
    return _float8_table(name)[codes]


def float32_to_float8(values: np.ndarray, name: str) -> np.ndarray:
    """float32 -> uint8, to nearest even, saturating at the largest finite value as `cvt.rn.satfinite` does."""
    table = _float8_table(name)
    positive = table[:128]
    finite = positive[np.isfinite(positive)].astype(np.float64)
    middle = (finite[:-1] + finite[1:]) / 2
    magnitude = np.abs(values).astype(np.float64)
    code = np.searchsorted(middle, magnitude, side="left")
    tie = (code < len(middle)) & (magnitude == middle[np.minimum(code, len(middle) - 1)])
    code = np.where(tie & (code % 2 == 1), code + 1, code)
    negative = np.signbit(values) & ((code > 0) if name in ("fp8e4b8", "fp8e5b16") else True)
    code = code | np.where(negative, 0x80, 0)
    nan = int(np.flatnonzero(np.isnan(table))[0])
    return np.where(np.isnan(values), nan, code).astype(np.uint8)


def undefined(shape: tuple[int, ...], dtype: np.dtype[Any], *, bfloat16: bool = False) -> np.ndarray:
    """An array of undefined values: poisoned NaN for floats, a sentinel for integers, True for booleans."""
    if bfloat16:
        return np.full(shape, POISON_BFLOAT16, np.uint16)
    if dtype.kind == "f":
        bits = np.full((1,), POISON_BITS[dtype.itemsize], f"uint{8 * dtype.itemsize}")
        return np.broadcast_to(bits.view(dtype), shape or (1,)).reshape(shape)
    if dtype.kind in "iu":
        return np.full(shape, POISON_INTEGER[dtype.itemsize], dtype)
    return np.ones(shape, dtype)


def poisoned(values: np.ndarray) -> np.ndarray:
    """Where a float array holds an undefined value: a NaN with a payload."""
    nan = np.isnan(values)
    if not nan.any():
        return nan
    size = values.dtype.itemsize
    mantissa = {2: 0x01FF, 4: 0x003FFFFF, 8: 0x0007FFFFFFFFFFFF}[size]
    bits = np.ascontiguousarray(values).view(f"uint{8 * size}")
    return nan & ((bits & bits.dtype.type(mantissa)) != 0)
