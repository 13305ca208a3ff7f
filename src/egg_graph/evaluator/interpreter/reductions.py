"""Reductions and scans on whole arrays, in tree order as on a GPU, with any combine function.

Triton's own call the combine function element by element in Python and sum in serial order. These call it on arrays,
about log2(n) times for n elements.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime.interpreter import ReduceOps, ScanOps

from egg_graph.evaluator.interpreter.handles import from_float, is_emulated, is_uniform, make, to_float
from egg_graph.evaluator.interpreter.poison import is_poisoned, undefined
from egg_graph.evaluator.interpreter.run_state import current_run, is_fake, synchronise_along

Arrays = tuple[np.ndarray, ...]
Combine = Callable[[Arrays, Arrays], Arrays]


def _tensor(data: np.ndarray, dtype: Any) -> Any:
    """Make a tensor of an array: a block, or a scalar where no dimension is left."""
    if data.ndim == 0:
        return tl.tensor(make(data.reshape(1), dtype), dtype)
    return tl.tensor(make(np.ascontiguousarray(data), dtype), tl.block_type(dtype, list(data.shape)))


def combiner(function: Any, dtypes: list[Any]) -> Combine:
    """Turn the kernel's combine function into one on arrays of the operands' bits."""

    def combine(left: Arrays, right: Arrays) -> Arrays:
        current_run().steps += 1
        operands = [_tensor(x, t) for side in (left, right) for x, t in zip(side, dtypes, strict=True)]
        result = function(*operands)
        results = result if isinstance(result, tuple | list | tl.tuple) else (result,)
        shape = left[0].shape
        return tuple(np.broadcast_to(_raw(r, t), shape) for r, t in zip(results, dtypes, strict=True))

    return combine


def _raw(value: Any, dtype: Any) -> np.ndarray:
    return value.handle.data if isinstance(value, tl.tensor) else from_float(np.array([value]), dtype)


def tree_reduce(arrays: Arrays, combine: Combine) -> Arrays:
    """Reduce the last axis pairwise.

    Raises:
        ValueError: if its length is no power of two, as Triton's blocks are.
    """
    while arrays[0].shape[-1] > 1:
        left = tuple(x[..., 0::2] for x in arrays)
        right = tuple(x[..., 1::2] for x in arrays)
        if left[0].shape != right[0].shape:
            raise ValueError(f"cannot reduce an axis of length {arrays[0].shape[-1]}: not a power of two")
        arrays = combine(left, right)
    return tuple(x[..., 0] for x in arrays)


def tree_scan(arrays: Arrays, combine: Combine) -> Arrays:
    """Scan the last axis of n elements inclusively in log2(n) sweeps (Hillis and Steele 1986)."""
    position = np.arange(arrays[0].shape[-1])
    step = 1
    while step < len(position):
        combined = combine(tuple(np.roll(x, step, axis=-1) for x in arrays), arrays)
        arrays = tuple(np.where(position < step, x, y) for x, y in zip(arrays, combined, strict=True))
        step *= 2
    return arrays


def _extreme(choose: Any, total: Any) -> Callable[[np.ndarray, int], np.ndarray]:
    """Make a maximum or minimum along an axis: NaN loses against numbers, an undefined value wins."""

    def reduce(values: np.ndarray, axis: int) -> np.ndarray:
        result = total(values, axis=axis)
        if result.dtype.kind != "f" or not np.isnan(result).any():
            return result
        bad = is_poisoned(values).any(axis=axis)
        return np.where(bad, undefined((), result.dtype), choose.reduce(values, axis=axis))

    return reduce


def _sum(values: np.ndarray, axis: int) -> np.ndarray:
    """Sum along an axis, floats in tree order."""
    if values.dtype.kind != "f":
        return np.sum(values, axis=axis)
    return tree_reduce((np.moveaxis(values, axis, -1),), lambda a, b: (a[0] + b[0],))[0]


_REDUCTIONS = {
    "_sum_combine": _sum,
    "_elementwise_max": _extreme(np.fmax, np.max),
    "_elementwise_min": _extreme(np.fmin, np.min),
    "_xor_combine": lambda values, axis: np.bitwise_xor.reduce(values, axis=axis),
    "_or_combine": lambda values, axis: np.bitwise_or.reduce(values, axis=axis),
}
"""Combine function of `triton.language.standard` -> reduction of a whole array."""
_SCANS = {"_sum_combine": np.add, "_prod_combine": np.multiply}
"""Combine function of `triton.language.standard` -> the same on arrays."""


def _rounds_each_step(name: str, operand: Any) -> bool:
    """Whether a sum or product of bfloat16 is reduced, which the compiled code rounds at every step (`add.bf16`)."""
    return name in _SCANS and is_emulated(operand.handle)


def _standard_name(function: Any) -> str:
    """Return the name of a combine function of `triton.language.standard`; empty for any other function."""
    name = getattr(function, "__name__", "")
    return name if getattr(tl.standard, name, None) is function else ""


def reduce_blocks(self: Any, inputs: Any) -> Any:
    """Replace `ReduceOps.apply_impl`, the operator of `tl.reduce`, `tl.sum`, `tl.max` and their kin."""
    synchronise_along(self.axis, inputs[0].handle.data.shape)
    name = _standard_name(self.combine_fn)
    dtypes = [x.dtype for x in inputs]
    arrays = tuple(x.handle.data for x in inputs)
    ndim = arrays[0].ndim
    axis = self.axis
    if axis is None:
        arrays, axis = tuple(x.reshape(-1) for x in arrays), 0
    if is_fake() and all(is_uniform(x) and x.dtype.kind == "f" for x in arrays):
        results: Arrays = tuple(x.take(0, axis=axis) for x in arrays)
    elif name in _REDUCTIONS and len(arrays) == 1 and not _rounds_each_step(name, inputs[0]):
        values = _REDUCTIONS[name](to_float(inputs[0].handle).reshape(arrays[0].shape), axis)
        results = (from_float(values, dtypes[0]),)
    elif "argmax" in name or "argmin" in name:
        results = _arg_extreme(name, inputs, axis if self.axis is not None else None)
    else:
        results = tree_reduce(tuple(np.moveaxis(x, axis, -1) for x in arrays), combiner(self.combine_fn, dtypes))
    if self.keep_dims:
        results = tuple(np.expand_dims(x, tuple(range(ndim)) if self.axis is None else axis) for x in results)
    tensors = [_tensor(np.asarray(x), t) for x, t in zip(results, dtypes, strict=True)]
    return tensors if len(tensors) > 1 else tensors[0]


def _arg_extreme(name: str, inputs: Any, axis: int | None) -> Arrays:
    """Return value and position of the maximum or minimum along `axis` (None: of all elements).

    Among equals it is the first, unless the kernel allows any: then it is the last, which no kernel takes for granted.
    """
    values = to_float(inputs[0].handle)
    flat = values.reshape(-1) if axis is None else values
    along = 0 if axis is None else axis
    choose = np.argmax if "argmax" in name else np.argmin
    if name.endswith("tie_break_fast"):
        position = flat.shape[along] - 1 - choose(np.flip(flat, along), axis=along)
    else:
        position = choose(flat, axis=along)
    best = np.take_along_axis(flat, np.expand_dims(position, along), along).squeeze(along)
    return from_float(best, inputs[0].dtype), position.astype(inputs[1].handle.data.dtype)


def scan_blocks(self: Any, inputs: Any) -> Any:
    """Replace `ScanOps.apply_impl`, the operator of `tl.associative_scan`, `tl.cumsum` and `tl.cumprod`."""
    synchronise_along(self.axis, inputs[0].handle.data.shape)
    dtypes = [x.dtype for x in inputs]
    name = _standard_name(self.combine_fn)
    axis = self.axis
    if is_fake() and all(is_uniform(x.handle.data) for x in inputs):
        return list(inputs)
    whole = name in _SCANS and len(inputs) == 1 and not _rounds_each_step(name, inputs[0])
    if whole:
        operation = _SCANS[name]
        arrays: Arrays = (to_float(inputs[0].handle),)
        combine: Combine = lambda a, b: (operation(a[0], b[0]),)  # noqa: E731
    else:
        arrays, combine = tuple(x.handle.data for x in inputs), combiner(self.combine_fn, dtypes)
    moved = tuple(np.moveaxis(np.flip(x, axis) if self.reverse else x, axis, -1) for x in arrays)
    results = tuple(np.moveaxis(x, -1, axis) for x in tree_scan(moved, combine))
    if self.reverse:
        results = tuple(np.flip(x, axis) for x in results)
    if whole:
        results = (from_float(results[0], dtypes[0]),)
    return [_tensor(x, t) for x, t in zip(results, dtypes, strict=True)]


def install() -> None:
    """Replace how Triton's interpreter reduces and scans blocks."""
    ReduceOps.apply_impl, ScanOps.apply_impl = reduce_blocks, scan_blocks
