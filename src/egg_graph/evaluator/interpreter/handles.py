"""Handles of the interpreter seen as plain float arrays, whatever their storage format."""

from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.interpreter import TensorHandle

from egg_graph.evaluator.interpreter import number_formats

_original_numpy_dtype = interpreter._get_np_dtype
_numpy_dtypes: dict[Any, np.dtype[Any]] = {}


def numpy_dtype(dtype: Any) -> np.dtype[Any]:
    """numpy's dtype for a Triton dtype's bits; the original builds its table anew on every call."""
    if isinstance(dtype, tl.block_type):
        dtype = dtype.element_ty
    if isinstance(dtype, tl.pointer_type):
        return _numpy_dtypes.setdefault("pointer", np.dtype(np.uint64))
    known = _numpy_dtypes.get(dtype.name)
    if known is None:
        known = _numpy_dtypes[dtype.name] = _original_numpy_dtype(dtype)
    return known


def is_bfloat16(handle: Any) -> bool:
    """Whether the handle holds bfloat16 bits."""
    return handle.dtype.scalar == tl.bfloat16 and handle.data.dtype == np.uint16


def is_emulated(handle: Any) -> bool:
    """Whether numpy cannot compute with the handle's bits directly."""
    return is_bfloat16(handle) or (number_formats.is_float8(str(handle.dtype.scalar)) and handle.data.dtype == np.uint8)


def to_float(handle: Any) -> np.ndarray:
    """The handle's values as numpy computes them: float32 for bfloat16 and float8, as they are otherwise."""
    if not is_emulated(handle):
        return handle.data
    if is_bfloat16(handle):
        return number_formats.bfloat16_to_float32(handle.data)
    return number_formats.float8_to_float32(handle.data, str(handle.dtype.scalar))


def from_float(values: np.ndarray, dtype: Any, *, toward_zero: bool = False) -> np.ndarray:
    """Float values as the bits of a Triton dtype, rounded to nearest even or toward zero."""
    name = str(dtype.scalar)
    if name == "bf16":
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
    """A handle."""
    return TensorHandle(data, dtype)


def is_uniform(data: np.ndarray) -> bool:
    """Whether all elements are one and the same in memory (all strides 0)."""
    return data.size > 1 and not any(data.strides)


def one(data: np.ndarray) -> np.ndarray:
    """The single value of a uniform array, as a one-element array."""
    return data[(0,) * data.ndim].reshape(1)
