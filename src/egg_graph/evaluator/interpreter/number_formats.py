"""Number formats that numpy lacks, bit for bit: bfloat16 (held as uint16), float8 (held as uint8) and TF32."""

from functools import cache

import numpy as np

_FLOAT8 = {
    "fp8e4nv": (4, 3, 7, "nan_only"),
    "fp8e5": (5, 2, 15, "ieee"),
    "fp8e4b8": (4, 3, 8, "fnuz"),
    "fp8e5b16": (5, 2, 16, "fnuz"),
}
"""Triton's name -> exponent bits, mantissa bits, exponent bias, and how the format encodes infinity and NaN."""


def bfloat16_to_float32(bits: np.ndarray) -> np.ndarray:
    """Convert bfloat16 bits (uint16) to float32, exactly."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def float32_to_bfloat16(values: np.ndarray, *, truncate: bool = False) -> np.ndarray:
    """Convert float32 to bfloat16 bits (uint16), rounding to nearest even, or toward zero if `truncate`.

    NaN keeps the upper half of its payload.
    """
    u = np.asarray(values, np.float32).view(np.uint32)
    upper = (u >> 16).astype(np.uint16)
    if truncate:
        return upper
    rounded = ((u + np.uint32(0x7FFF) + ((u >> 16) & np.uint32(1))) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), upper | np.uint16(0x40), rounded)


def truncate_to_tf32(values: np.ndarray) -> np.ndarray:
    """Drop the 13 low mantissa bits of float32, as Hopper's wgmma does with its operands."""
    u = np.asarray(values, np.float32).view(np.uint32)
    return (u & np.uint32(0xFFFFE000)).view(np.float32)


def round_to_tf32(values: np.ndarray) -> np.ndarray:
    """Round float32 to TF32, to nearest with ties away from zero (`cvt.rna.tf32.f32`)."""
    u = np.asarray(values, np.float32).view(np.uint32)
    rounded = ((u + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
    return np.where(np.isfinite(values), rounded, values).astype(np.float32)


@cache
def _float8_table(name: str) -> np.ndarray:
    """Decode all 256 codes of a float8 format to float32."""
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


def round_to_bfloat16(values: np.ndarray) -> np.ndarray:
    """Round float32 to the nearest bfloat16, given as float32."""
    return bfloat16_to_float32(float32_to_bfloat16(values))


def is_float8(name: str) -> bool:
    """Whether Triton's name of a dtype is that of a float8 format known here."""
    return name in _FLOAT8


def float8_to_float32(codes: np.ndarray, name: str) -> np.ndarray:
    """Convert float8 codes (uint8) to float32, exactly."""
    return _float8_table(name)[codes]


def float32_to_float8(values: np.ndarray, name: str) -> np.ndarray:
    """Convert float32 to float8 codes (uint8), rounding to nearest even.

    Values beyond the largest finite one saturate, as in `cvt.rn.satfinite` (PTX ISA, cvt).
    """
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
