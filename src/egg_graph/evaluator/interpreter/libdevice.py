"""libdevice in numpy: `tl.extra.libdevice`, `tl.extra.cuda.libdevice` and `tl.extra.hip.libdevice`.

Triton declares these functions as external symbols, which its interpreter cannot call.
"""

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

from egg_graph.evaluator.interpreter import approximate
from egg_graph.evaluator.interpreter.arithmetic import apply, torch_special
from egg_graph.evaluator.interpreter.handles import make
from egg_graph.evaluator.interpreter.run_state import current_run
from egg_graph.evaluator.wire.faults import KernelFault


def _round_away(x: np.ndarray) -> np.ndarray:
    """Round as C's `round` does: halves go away from zero."""
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


SAME_NAME = {name: getattr(np, name) for name in (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "cbrt", "sin", "cos", "tan", "sinh", "cosh",
    "tanh",
    "floor", "ceil", "trunc", "rint", "hypot", "copysign", "fmod", "nextafter", "isnan", "isinf", "signbit", "ldexp",
    "abs",
)}  # fmt: skip
"""Functions that numpy has under libdevice's name."""
OTHER_NAME: dict[str, Callable[..., Any]] = {
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "atan2": np.arctan2, "pow": np.power, "nearbyint": np.rint, "round": _round_away,
    "exp10": lambda x: np.power(np.float32(10), x),
    "rsqrt": lambda x: 1 / np.sqrt(x), "rcbrt": lambda x: 1 / np.cbrt(x), "rhypot": lambda x, y: 1 / np.hypot(x, y),
    "sinpi": lambda x: np.sin(np.pi * x), "cospi": lambda x: np.cos(np.pi * x), "fdim": lambda x, y: np.fmax(x - y, 0),
    "remainder": lambda x, y: x - y * np.rint(x / y), "saturatef": lambda x: np.clip(np.nan_to_num(x), 0, 1),
    "fma": lambda x, y, z: x * y + z, "fma_rn": lambda x, y, z: x * y + z, "finitef": np.isfinite,
    "isfinited": np.isfinite, "rcp_rn": lambda x: 1 / x, "sqrt_rn": np.sqrt, "rsqrt_rn": lambda x: 1 / np.sqrt(x),
    "add_rn": np.add, "sub_rn": np.subtract, "mul_rn": np.multiply, "div_rn": np.divide,
    "fast_dividef": approximate.quotient, "fast_sinf": approximate.sine, "fast_cosf": approximate.cosine,
    "fast_tanf": approximate.tangent, "fast_tanhf": approximate.tanh, "fast_expf": approximate.exp,
    "fast_exp10f": approximate.exp10,
    "fast_logf": approximate.log, "fast_log2f": approximate.log2, "fast_log10f": approximate.log10,
    "fast_powf": approximate.power, "popc": np.bitwise_count,
}  # fmt: skip
BITCASTS = {
    "int_as_float": tl.float32, "uint_as_float": tl.float32, "float_as_int": tl.int32, "float_as_uint": tl.uint32,
}  # fmt: skip
TORCH_NAME = {
    "erf": "erf", "erfc": "erfc", "erfinv": "erfinv", "erfcx": "erfcx", "normcdf": "ndtr", "normcdfinv": "ndtri",
    "lgamma": "gammaln", "j0": "bessel_j0", "j1": "bessel_j1", "cyl_bessel_i0": "i0", "cyl_bessel_i1": "i1",
}  # fmt: skip
"""libdevice's name of a function that only PyTorch has -> its name in `torch.special`."""
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **SAME_NAME,
    **OTHER_NAME,
    **{name: torch_special(other) for name, other in TORCH_NAME.items()},
}


def _elementwise(name: str, operation: Callable[..., Any]) -> Callable[..., Any]:
    """Make a libdevice function of a numpy one. Its result has the first operand's type; a predicate gives int32."""

    def function(*args: Any, **_: Any) -> Any:
        tensors = [interpreter.interpreter_semantic.to_tensor(arg) for arg in args]
        first = max(tensors, key=lambda t: t.handle.data.size)
        dtype = tensors[0].dtype
        values = apply(operation, *[t.handle.data for t in tensors])
        if values.dtype == bool:
            return _tensor(values.astype(np.int32), tl.int32, first)
        return _tensor(values.astype(tensors[0].handle.data.dtype, copy=False), dtype, first)

    function.__name__ = name
    return function


def _bitcast(name: str, target: Any) -> Callable[..., Any]:
    """Make a libdevice function that reinterprets the bits of its operand."""

    def function(arg: Any, **_: Any) -> Any:
        tensor = interpreter.interpreter_semantic.to_tensor(arg)
        return tl.tensor.to(tensor, target, bitcast=True)

    function.__name__ = name
    return function


def _tensor(data: np.ndarray, dtype: Any, like: Any) -> Any:
    shape = like.type.shape if like.type.is_block() else None
    return tl.tensor(make(data, dtype), tl.block_type(dtype, shape) if shape else dtype)


def _unknown(name: str) -> Callable[..., Any]:
    """Make a libdevice function that reports itself as unsupported when a kernel calls it."""

    def function(*args: Any, **_: Any) -> Any:
        raise KernelFault(
            "unsupported_in_kernel",
            f"the interpreter knows no libdevice function '{name}'",
            current_run().where(),
            "Compose it from functions of triton.language.",
        )

    function.__name__ = name
    return function


def install() -> None:
    """Replace every function of the libdevice modules."""
    import triton.language.extra.cuda.libdevice as cuda
    import triton.language.extra.hip.libdevice as hip
    import triton.language.extra.libdevice as generic

    for module in (generic, cuda, hip):
        _replace(module)


def _replace(module: ModuleType) -> None:
    for name, member in list(vars(module).items()):
        if name.startswith("_") or not inspect.isfunction(member) or not member.__module__.endswith("libdevice"):
            continue
        if name in BITCASTS:
            setattr(module, name, _bitcast(name, BITCASTS[name]))
        elif name in FUNCTIONS:
            setattr(module, name, _elementwise(name, FUNCTIONS[name]))
        else:
            setattr(module, name, _unknown(name))
