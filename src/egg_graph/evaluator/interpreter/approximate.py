"""Functions that the hardware approximates, with errors as large as the manuals allow.

The error bounds are those of the PTX ISA and the CUDA programming guide (intrinsic functions). Where within its bound
an error lies depends on the operand's bits alone, so it is always the same. The manuals bound no sine or cosine beyond
half a turn; there the operand is divided by 2 pi in fp32, which loses the angle's last bits.
"""

from collections.abc import Callable

import numpy as np

TURN = np.float32(1 / (2 * np.pi))
ULP = 2.0**-23
LARGEST_DIVISOR = 2.0**126
"""Largest divisor of `div.approx.f32`; beyond it the quotient is zero."""
Function = Callable[..., np.ndarray]


def _noise(x: np.ndarray) -> np.ndarray:
    """Hash the bits of x to numbers from -1 to 1; to 0 for 0, 1 and infinity, where every table is exact."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32) * np.uint32(2654435761)
    exact = (x == 0) | (np.abs(x) == 1) | np.isinf(x)
    return np.where(exact, 0.0, ((bits ^ (bits >> 15)) & np.uint32(0xFFFF)) / 32767.5 - 1.0)


def _relative(exact: Function, bound: float) -> Function:
    """Make a function with a relative error of at most `bound`."""

    def function(*operands: np.ndarray) -> np.ndarray:
        wide = exact(*[x.astype(np.float64) for x in operands])
        return (wide * (1 + bound * _noise(operands[0]))).astype(np.float32)

    return function


def _turning(exact: Function) -> Function:
    """Make a sine or cosine with an absolute error; beyond half a turn the angle has an error, too."""

    def function(x: np.ndarray) -> np.ndarray:
        far = np.abs(x) > np.pi
        reduced = (x.astype(np.float32) * TURN).astype(np.float64) * (2 * np.pi)
        angle = np.where(far, reduced, x)
        return (exact(angle) + np.where(far, 2.0**-20.5, 2.0**-21.41) * _noise(x)).astype(np.float32)

    return function


def _logarithm(exact: Function, near_one: float, elsewhere: float) -> Function:
    """Make a logarithm with an absolute error of `near_one` between 1/2 and 2, a relative one of `elsewhere` beyond."""

    def function(x: np.ndarray) -> np.ndarray:
        wide = exact(x.astype(np.float64))
        error = np.where((x >= 0.5) & (x <= 2), near_one, elsewhere * np.abs(wide))
        return np.where(np.isfinite(wide), wide + error * _noise(x), wide).astype(np.float32)

    return function


sine, cosine = _turning(np.sin), _turning(np.cos)
exp2 = _relative(np.exp2, 2.0**-22)
log2 = _logarithm(np.log2, 2.0**-22, 2.0**-22)
log = _logarithm(np.log, 2.0**-21.41, 3 * ULP)
log10 = _logarithm(np.log10, 2.0**-24, 3 * ULP)
tanh = _relative(np.tanh, 2.0**-11)
reciprocal = _relative(lambda x: 1 / x, ULP)
root = _relative(np.sqrt, ULP)
reciprocal_root = _relative(lambda x: 1 / np.sqrt(x), 2.0**-22.9)
full_quotient = _relative(lambda x, y: x / y, 2 * ULP)


def quotient(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Divide as `div.approx.f32` and `__fdividef` do: the quotient is zero where the divisor exceeds 2^126."""
    beyond = (np.abs(y) > LARGEST_DIVISOR) & np.isfinite(y)
    return np.where(beyond, np.where(np.isinf(x), np.nan, 0), full_quotient(x, y)).astype(np.float32)


def exp(x: np.ndarray) -> np.ndarray:
    """Compute `__expf`, which rounds the product with log2(e) before it takes the power of two."""
    return exp2(x.astype(np.float32) * np.float32(np.log2(np.e)))


def exp10(x: np.ndarray) -> np.ndarray:
    """Compute `__exp10f`, which rounds the product with log2(10) before it takes the power of two."""
    return exp2(x.astype(np.float32) * np.float32(np.log2(10)))


def power(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Compute `__powf`, which goes through a logarithm, so that a negative base gives NaN."""
    return exp2(y.astype(np.float32) * log2(x))


def tangent(x: np.ndarray) -> np.ndarray:
    """Compute `__tanf`, the quotient of `__sinf` and `__cosf`."""
    return quotient(sine(x), cosine(x))
