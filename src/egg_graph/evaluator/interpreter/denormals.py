"""Denormal fp32 numbers, where compiled code takes them for zero (PTX ISA, `.ftz`).

Operators of a kernel keep denormals; approximated roots, `tl.floor`, `tl.ceil` and what Triton takes from libdevice do
not: libdevice asks `__nvvm_reflect("__CUDA_FTZ")`, which Triton answers with 1.
"""

from collections.abc import Callable

import numpy as np

Function = Callable[..., np.ndarray]
LEAST_NORMAL = np.float32(2.0**-126)


def is_denormal(x: np.ndarray) -> np.ndarray:
    """Return for each element whether it is a denormal fp32 number; False for all of another type."""
    if x.dtype != np.float32:
        return np.zeros(x.shape, bool)
    return (np.abs(x) < LEAST_NORMAL) & (x != 0)


def without_denormals(x: np.ndarray) -> np.ndarray:
    """Replace denormal fp32 numbers by the zero of their sign."""
    denormal = is_denormal(x)
    return np.where(denormal, np.copysign(np.float32(0), x), x) if denormal.any() else x


def flushing(function: Function) -> Function:
    """Make a function whose fp32 operands and results are flushed to zero."""
    return lambda *operands: without_denormals(function(*[without_denormals(x) for x in operands]))


def undefined_at_denormals(function: Function) -> Function:
    """Make a function that gives NaN at denormals: it takes the logarithm of what is flushed, and misses the zero."""

    def guarded(x: np.ndarray) -> np.ndarray:
        result, denormal = function(x), is_denormal(x)
        return np.where(denormal, np.float32(np.nan), result) if denormal.any() else result

    return guarded
