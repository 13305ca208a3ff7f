"""Arithmetic of fp64 whose rounding error is known, so that a result can be rounded once more without harm.

A sum or product is computed together with what its rounding lost (Knuth 1969; Dekker 1971; Boldo and Melquiond 2008).
"Rounded to odd" is the neighbour whose last bit is set, unless the number is exact: rounding that to a type of at least
two bits less gives the same as rounding the exact number.
"""

from typing import Any

import numpy as np

SPLITTER = float(2**27 + 1)
Pair = tuple[np.ndarray, np.ndarray]
"""A result to nearest, and a number of the sign of what it lost; 0 where it is exact or not finite."""


def _finite(result: np.ndarray, error: np.ndarray) -> Pair:
    return result, np.where(np.isfinite(result) & np.isfinite(error), error, 0.0)


def sum_of_two(x: np.ndarray, y: np.ndarray) -> Pair:
    """Add; the error is exact."""
    total = x + y
    part = total - x
    return _finite(total, (x - (total - part)) + (y - part))


def product_of_two(x: np.ndarray, y: np.ndarray) -> Pair:
    """Multiply; the error is exact unless it underflows."""
    product = x * y
    high_x, high_y = _upper_half(x), _upper_half(y)
    low_x, low_y = x - high_x, y - high_y
    return _finite(product, ((high_x * high_y - product) + high_x * low_y + low_x * high_y) + low_x * low_y)


def _upper_half(x: np.ndarray) -> np.ndarray:
    scaled = SPLITTER * x
    return scaled - (scaled - x)


def product_and_sum(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> Pair:
    """Compute `x * y + z`, rounded once."""
    product, low = product_of_two(x, y)
    middle, lowest = sum_of_two(z, low)
    high, rest = sum_of_two(product, middle)
    tail = to_odd(*sum_of_two(rest, lowest))
    result = high + tail
    return _finite(np.where(np.isfinite(result), result, x * y + z), tail - (result - high))


def quotient(x: np.ndarray, y: np.ndarray) -> Pair:
    """Divide; the error has the right sign."""
    result = x / y
    product, low = product_of_two(result, y)
    return _finite(result, ((x - product) - low) * np.sign(y))


def root(x: np.ndarray) -> Pair:
    """Take the square root; the error has the right sign."""
    result = np.sqrt(x)
    product, low = product_of_two(result, result)
    return _finite(result, (x - product) - low)


def to_odd(nearest: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Round to odd what is known to nearest and by its error."""
    nearest = np.asarray(nearest)
    even = (nearest.view(f"uint{8 * nearest.itemsize}") & 1) == 0
    toward = np.copysign(np.array(np.inf, nearest.dtype), error.astype(nearest.dtype))
    return np.where(even & (error != 0), np.nextafter(nearest, toward), nearest)


def narrowed_to_odd(values: np.ndarray) -> np.ndarray:
    """Round numbers of any type to fp32, to odd."""
    wide: Any = values.astype(np.float64 if values.dtype.itemsize < 8 or values.dtype.kind == "f" else np.longdouble)
    nearest = wide.astype(np.float32)
    difference = np.where(np.isfinite(nearest), wide - nearest, 0)
    return to_odd(nearest, np.sign(difference).astype(np.float32))


def fused(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Compute `x * y + z` of floats of one type, rounded once; in fp64 to odd where the type is smaller."""
    wide = product_and_sum(*[operand.astype(np.float64) for operand in (x, y, z)])
    return wide[0] if x.dtype == np.float64 else to_odd(*wide)
