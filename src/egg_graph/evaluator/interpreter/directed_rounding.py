"""Arithmetic and conversions that are told how to round: to nearest even, toward zero, down or up.

Each is computed in a wider type and rounded from there. Float to integer conversions saturate, as on a GPU.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

Function = Callable[..., np.ndarray]
MODES = ("rn", "rz", "rd", "ru")
TO_INTEGER = {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}
"""Rounding mode -> function that rounds to an integral value."""


def wider(dtype: np.dtype[Any]) -> type[Any]:
    """Return a float type in which operations on operands of `dtype` lose nothing that counts."""
    return np.float64 if dtype.itemsize <= 4 else np.longdouble


def rounded(wide: np.ndarray, target: np.dtype[Any], mode: str) -> np.ndarray:
    """Round wide floats to a narrower float type."""
    nearest = wide.astype(target)
    if mode == "rn":
        return nearest
    back = nearest.astype(wide.dtype)
    low, high = target.type(-np.inf), target.type(np.inf)
    down, up = np.nextafter(nearest, low), np.nextafter(nearest, high)
    if mode == "rz":
        return np.where(np.abs(back) > np.abs(wide), np.where(wide > 0, down, up), nearest)
    if mode == "rd":
        return np.where(back > wide, down, nearest)
    return np.where(back < wide, up, nearest)


def arithmetic(operation: Function, mode: str) -> Function:
    """Make an operation on floats, rounded once."""

    def function(*operands: np.ndarray) -> np.ndarray:
        wide = wider(operands[0].dtype)
        return rounded(operation(*[x.astype(wide) for x in operands]), operands[0].dtype, mode)

    return function


def to_float(target: Any, mode: str) -> Function:
    """Make a conversion of integers or wider floats to a float type."""
    return lambda x: rounded(x.astype(np.longdouble), np.dtype(target), mode)


def to_integer(target: Any, mode: str) -> Function:
    """Make a conversion of floats to an integer type. A NaN gives 0 in 32 bits, the lowest bit pattern in 64."""
    limits = np.iinfo(target)
    nan = 0 if limits.bits == 32 else 1 << 63

    def function(x: np.ndarray) -> np.ndarray:
        whole = TO_INTEGER[mode](x).astype(np.longdouble)
        inside = (whole >= limits.min) & (whole <= limits.max)
        result = np.where(inside, whole, 0).astype(target)
        result = np.where(whole > limits.max, target(limits.max), result)
        result = np.where(whole < limits.min, target(limits.min), result)
        lost = np.array([nan], np.uint64).astype(f"uint{limits.bits}").view(target)[0]
        return np.where(np.isnan(x), lost, result)

    return function


ARITHMETIC: dict[str, Function] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "fma": lambda x, y, z: x * y + z,
    "rcp": lambda x: 1 / x,
    "sqrt": np.sqrt,
}
FLOATS = {"float": np.float32, "double": np.float64}
INTEGERS = {"int": np.int32, "uint": np.uint32, "ll": np.int64, "ull": np.uint64}
FUNCTIONS: dict[str, Function] = {
    **{f"{name}_{mode}": arithmetic(operation, mode) for name, operation in ARITHMETIC.items() for mode in MODES},
    **{
        f"{source}2{target}_{mode}": to_integer(kind, mode)
        for source in FLOATS
        for target, kind in INTEGERS.items()
        for mode in MODES
    },
    **{
        f"{source}2{target}_{mode}": to_float(kind, mode)
        for source in (*INTEGERS, "double")
        for target, kind in FLOATS.items()
        for mode in MODES
        if source != target
    },
}
"""libdevice's name -> the function."""
