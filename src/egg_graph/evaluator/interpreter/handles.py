"""Tensor handles of Triton's interpreter, and their values as arrays that numpy can compute with."""

from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.interpreter import TensorHandle

from egg_graph.evaluator.interpreter import number_formats
from egg_graph.evaluator.interpreter.exact_arithmetic import narrowed_to_odd

NARROW = tuple(np.dtype(name) for name in ("float32", "float16", "bool", "int8", "uint8", "int16", "uint16"))
"""Types whose numbers fp32 holds."""
_original_numpy_dtype = interpreter._get_np_dtype
_numpy_dtypes: dict[Any, np.dtype[Any]] = {}


def numpy_dtype(dtype: Any) -> np.dtype[Any]:
    """Replace `interpreter._get_np_dtype`: return numpy's dtype for the bits of a Triton dtype.

    The original builds a table on every call; this one remembers the answers.
    """
    if isinstance(dtype, tl.block_type):
        dtype = dtype.element_ty
    if isinstance(dtype, tl.pointer_type):
        return _numpy_dtypes.setdefault("pointer", np.dtype(np.uint64))
    known = _numpy_dtypes.get(dtype.name)
    if known is None:
        known = _numpy_dtypes[dtype.name] = _original_numpy_dtype(dtype)
    return known


def is_bfloat16(handle: Any) -> bool:
    """Whether a handle holds bfloat16 bits."""
    return handle.dtype.scalar == tl.bfloat16 and handle.data.dtype == np.uint16


def is_emulated(handle: Any) -> bool:
    """Whether a handle holds bfloat16 or float8 bits, with which numpy cannot compute."""
    return is_bfloat16(handle) or (number_formats.is_float8(str(handle.dtype.scalar)) and handle.data.dtype == np.uint8)


def to_float(handle: Any) -> np.ndarray:
    """Return the values of a handle for numpy: float32 for bfloat16 and float8, unchanged otherwise."""
    if not is_emulated(handle):
        return handle.data
    if is_bfloat16(handle):
        return number_formats.bfloat16_to_float32(handle.data)
    return number_formats.float8_to_float32(handle.data, str(handle.dtype.scalar))


def from_float(values: np.ndarray, dtype: Any, *, toward_zero: bool = False) -> np.ndarray:
    """Convert float values to the bits of a Triton dtype, rounded to nearest even or toward zero."""
    name = str(dtype.scalar)
    if name == "bf16":
        if values.dtype not in NARROW:
            values = narrowed_to_odd(values)  # the hardware rounds once
        return number_formats.float32_to_bfloat16(values.astype(np.float32), truncate=toward_zero)
    if number_formats.is_float8(name):
        return number_formats.float32_to_float8(values.astype(np.float32), name)
    target = numpy_dtype(dtype.scalar)
    result = values.astype(target)
    if toward_zero and target.kind == "f" and target.itemsize < values.dtype.itemsize:
        beyond = np.abs(result.astype(values.dtype)) > np.abs(values)
        result = np.where(beyond, np.nextafter(result, target.type(0)), result)
    return result


def make(data: np.ndarray, dtype: Any) -> Any:
    """Make a handle of bits and a Triton dtype."""
    return TensorHandle(data, dtype)


def repeated(data: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """An array repeated over a block: itself where it has that shape already, else a view that cannot be written to.

    As `np.broadcast_to`, which takes four times as long for the single elements that most blocks are made of.
    """
    if data.shape == shape:
        return data
    if data.size != 1 or not shape:
        return np.broadcast_to(data, shape)
    view = np.ndarray(shape, data.dtype, data, 0, (0,) * len(shape))
    view.flags.writeable = False
    return view


def is_uniform(data: np.ndarray) -> bool:
    """Whether an array repeats one element in memory (all strides are 0)."""
    return data.size > 1 and not any(data.strides)


def one(data: np.ndarray) -> np.ndarray:
    """Return the value of a uniform array as a one-element array."""
    return data[(0,) * data.ndim].reshape(1)
