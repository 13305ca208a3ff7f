"""libdevice's functions in numpy, by name."""

from collections.abc import Callable
from typing import Any

import numpy as np

from egg_graph.evaluator.interpreter import approximate, directed_rounding, integer_intrinsics
from egg_graph.evaluator.interpreter.arithmetic import torch_special
from egg_graph.evaluator.interpreter.denormals import flushing, is_denormal, undefined_at_denormals

Function = Callable[..., np.ndarray]


def _round_away(x: np.ndarray) -> np.ndarray:
    """Round as C's `round` does: halves go away from zero."""
    whole = np.trunc(x)
    return whole + np.copysign(np.abs(x - whole) >= 0.5, x).astype(x.dtype)


def _exponent(x: np.ndarray) -> np.ndarray:
    """`ilogb`: the binary exponent; the lowest integer for 0 and NaN, the highest for infinity."""
    exponent = np.frexp(x)[1] - 1
    limits = np.iinfo(np.int32)
    return np.where(np.isinf(x), limits.max, np.where((x == 0) | np.isnan(x), limits.min, exponent)).astype(np.int32)


def _exponent_as_float(x: np.ndarray) -> np.ndarray:
    """`logb`: the binary exponent as a float; -150 for denormal fp32 numbers, whose bits it counts after the flush."""
    exponent = np.where(is_denormal(x), -150, np.frexp(x)[1] - 1).astype(x.dtype)
    return np.where(x == 0, -np.inf, np.where(np.isinf(x), np.inf, np.where(np.isnan(x), x, exponent))).astype(x.dtype)


def _gamma(x: np.ndarray) -> np.ndarray:
    """`tgamma`, by way of the logarithm of its absolute value; NaN at negative integers."""
    magnitude = np.exp(torch_special("gammaln")(x.astype(np.float64)))
    odd = (x < 0) & (np.floor(x) % 2 != 0)
    pole = (x < 0) & (np.floor(x) == x)
    return np.where(pole, np.nan, np.where(odd, -magnitude, magnitude))


def _of_half_turns(*, cosine: bool) -> Function:
    """Make `sinpi` or `cospi`: the angle is reduced exactly, to an eighth of a turn and a number of quarters."""

    def function(x: np.ndarray) -> np.ndarray:
        angle = np.fmod(x.astype(np.float64), 2)
        quarters = np.rint(2 * angle)
        rest = np.pi * (angle - quarters / 2)
        quarters = (quarters + cosine) % 4
        result = np.where(quarters % 2 == 1, np.cos(rest), np.sin(rest))
        result = np.where(quarters >= 2, -result, result)
        return np.where(result == 0, 0.0 if cosine else np.copysign(0.0, x), result)

    return function


def _remainder(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """`remainder`: x less the nearest multiple of y, of two the even one; exact."""
    left, right = np.abs(x), np.abs(y)
    rest = np.fmod(left, right + right)
    beyond = rest > right - rest
    once = rest - right
    rest = np.where(beyond, np.where(once >= right - once, once - right, once), rest)
    return np.where(np.signbit(x), -rest, rest)


def _norm(*values: np.ndarray) -> np.ndarray:
    return np.sqrt(sum(v.astype(np.float64) ** 2 for v in values))


def _reciprocal_of_high_word(x: np.ndarray) -> np.ndarray:
    """`rcp64h`: the reciprocal, of whose bits the lower half is zero."""
    high = np.uint64(0xFFFFFFFF00000000)
    coarse = (integer_intrinsics.unsigned(x) & high).view(np.float64)
    return (integer_intrinsics.unsigned(1 / coarse) & high).view(np.float64)


SAME_NAME = {name: getattr(np, name) for name in (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "cbrt", "sin", "cos", "tan", "sinh", "cosh",
    "tanh", "floor", "ceil", "trunc", "rint", "hypot", "copysign", "fmod", "nextafter", "isnan", "isinf", "signbit",
    "ldexp", "abs",
)}  # fmt: skip
"""Functions that numpy has under libdevice's name."""
OTHER_NAME: dict[str, Callable[..., Any]] = {
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "atan2": np.arctan2, "pow": np.power, "nearbyint": np.rint, "round": _round_away,
    "exp10": lambda x: np.power(x.dtype.type(10), x),
    "rsqrt": lambda x: 1 / np.sqrt(x), "rcbrt": lambda x: 1 / np.cbrt(x), "rhypot": lambda x, y: 1 / np.hypot(x, y),
    "sinpi": _of_half_turns(cosine=False), "cospi": _of_half_turns(cosine=True),
    "fdim": lambda x, y: np.where(x <= y, 0, x - y),
    "remainder": _remainder, "saturatef": lambda x: np.clip(np.nan_to_num(x), 0, 1),
    "fma": directed_rounding.FUNCTIONS["fma_rn"], "finitef": np.isfinite, "isfinited": np.isfinite,
    "rsqrt_rn": lambda x: 1 / np.sqrt(x.astype(np.float64)), "rcp64h": _reciprocal_of_high_word,
    "norm3d": _norm, "norm4d": _norm, "rnorm3d": lambda *v: 1 / _norm(*v), "rnorm4d": lambda *v: 1 / _norm(*v),
    "llrint": directed_rounding.to_integer(np.int64, "rn"),
    "llround": lambda x: directed_rounding.to_integer(np.int64, "rn")(_round_away(x)),
    "ilogb": _exponent, "logb": _exponent_as_float, "scalbn": np.ldexp, "tgamma": _gamma,
    "erfcinv": lambda x: -torch_special("ndtri")(x.astype(np.float64) / 2) / np.sqrt(2),
    "fast_dividef": approximate.quotient, "fast_sinf": approximate.sine, "fast_cosf": approximate.cosine,
    "fast_tanf": approximate.tangent, "fast_tanhf": approximate.tanh, "fast_expf": approximate.exp,
    "fast_exp10f": approximate.exp10,
    "fast_logf": approximate.log, "fast_log2f": approximate.log2, "fast_log10f": approximate.log10,
    "fast_powf": approximate.power,
}  # fmt: skip
TORCH_NAME = {
    "erf": "erf", "erfc": "erfc", "erfinv": "erfinv", "erfcx": "erfcx", "normcdf": "ndtr", "normcdfinv": "ndtri",
    "lgamma": "gammaln", "j0": "bessel_j0", "j1": "bessel_j1", "y0": "bessel_y0", "y1": "bessel_y1",
    "cyl_bessel_i0": "i0", "cyl_bessel_i1": "i1",
}  # fmt: skip
"""libdevice's name of a function that only PyTorch has -> its name in `torch.special`."""
_UNFLUSHED: dict[str, Function] = {
    **SAME_NAME,
    **directed_rounding.FUNCTIONS,
    **integer_intrinsics.FUNCTIONS,
    **OTHER_NAME,
    **{name: torch_special(other) for name, other in TORCH_NAME.items()},
}
FLUSHING = ("abs", "floor", "ceil", "ilogb", "sqrt", "rsqrt", "saturatef", "fma", *directed_rounding.FUNCTIONS)
"""Functions that take a denormal fp32 number for zero, and make none; for others that is within their error."""
FUNCTIONS: dict[str, Function] = {
    **_UNFLUSHED,
    **{name: flushing(_UNFLUSHED[name]) for name in FLUSHING},
    **{name: undefined_at_denormals(_UNFLUSHED[name]) for name in ("cbrt", "rcbrt")},
}
"""libdevice's name -> the function. It lacks `jn` and `yn`, Bessel functions of any order."""
