"""Arithmetic and conversions that are told how to round: to nearest even, toward zero, down or up.

Each is computed with its error, or in a wider type, and rounded from there. Float to integer conversions saturate, as
on a GPU.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from egg_graph.evaluator.interpreter import exact_arithmetic

Function = Callable[..., np.ndarray]
MODES = ("rn", "rz", "rd", "ru")
TO_INTEGER = {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}
"""Rounding mode -> function that rounds to an integral value."""


def rounded(wide: np.ndarray, target: np.dtype[Any], mode: str) -> np.ndarray:
    """Round wide floats to a narrower float type."""
    nearest = wide.astype(target)
    if mode == "rn":
        return nearest
    return _directed(nearest, np.sign(wide - nearest.astype(wide.dtype)), mode)


def _directed(nearest: np.ndarray, error: np.ndarray, mode: str) -> np.ndarray:
    """Move a number to nearest in the direction of `mode`; `error` has the sign of what rounding lost."""
    low, high = nearest.dtype.type(-np.inf), nearest.dtype.type(np.inf)
    down, up = (error < 0, error > 0)
    if mode == "rz":
        down, up = down & (nearest > 0), up & (nearest < 0)
    if mode != "ru":
        nearest = np.where(down, np.nextafter(nearest, low), nearest)
    return np.where(up, np.nextafter(nearest, high), nearest) if mode != "rd" else nearest


def arithmetic(operation: Callable[..., exact_arithmetic.Pair], mode: str) -> Function:
    """Make an operation on floats, rounded once."""

    def function(*operands: np.ndarray) -> np.ndarray:
        nearest, error = operation(*[x.astype(np.float64) for x in operands])
        if operands[0].dtype == np.float64:
            return nearest if mode == "rn" else _directed(nearest, error, mode)
        return rounded(exact_arithmetic.to_odd(nearest, error), operands[0].dtype, mode)

    return function


def to_float(target: Any, mode: str) -> Function:
    """Make a conversion of integers or wider floats to a float type."""
    return lambda x: rounded(x.astype(np.longdouble), np.dtype(target), mode)


def to_integer(target: Any, mode: str) -> Function:
    """Make a conversion of floats to an integer type, which saturates.

    A NaN gives 0, or where either type has 64 bits, the pattern whose highest bit alone is set (PTX ISA, cvt).
    """
    limits = np.iinfo(target)

    def function(x: np.ndarray) -> np.ndarray:
        if x.size and np.abs(x).max() < 2 ** (limits.bits - 1) and (x.min() >= 0 or limits.min < 0):
            return TO_INTEGER[mode](x).astype(target)  # all of them are inside, and none is NaN
        whole = TO_INTEGER[mode](x).astype(np.longdouble)
        inside = (whole >= limits.min) & (whole <= limits.max)
        result = np.where(inside, whole, 0).astype(target)
        result = np.where(whole > limits.max, target(limits.max), result)
        result = np.where(whole < limits.min, target(limits.min), result)
        nan = 1 << (limits.bits - 1) if limits.bits == 64 or x.dtype == np.float64 else 0
        lost = np.array([nan], np.uint64).astype(f"uint{limits.bits}").view(target)[0]
        return np.where(np.isnan(x), lost, result)

    return function


ARITHMETIC: dict[str, Callable[..., exact_arithmetic.Pair]] = {
    "add": exact_arithmetic.sum_of_two,
    "sub": lambda x, y: exact_arithmetic.sum_of_two(x, -y),
    "mul": exact_arithmetic.product_of_two,
    "div": exact_arithmetic.quotient,
    "fma": exact_arithmetic.product_and_sum,
    "rcp": lambda x: exact_arithmetic.quotient(np.ones_like(x), x),
    "sqrt": exact_arithmetic.root,
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
