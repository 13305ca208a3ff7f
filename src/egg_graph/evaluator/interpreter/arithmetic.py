"""Elementwise arithmetic: right for bfloat16 and float8, done once on uniform data, watched for int32 overflow."""

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime.interpreter import InterpreterBuilder

from egg_graph.evaluator.interpreter import number_formats, overflow
from egg_graph.evaluator.interpreter.handles import (
    from_float,
    is_emulated,
    is_uniform,
    make,
    numpy_dtype,
    one,
    to_float,
)
from egg_graph.evaluator.interpreter.run_state import current, is_fake
from egg_graph.evaluator.wire.faults import KernelFault


def apply(operation: Callable[..., np.ndarray], *operands: np.ndarray) -> np.ndarray:
    """`operation` on arrays; once only where every operand repeats one element (loads of a fake run do)."""
    if is_fake() and any(x.size > 1 for x in operands) and all(is_uniform(x) or x.size == 1 for x in operands):
        shape = max((x.shape for x in operands if x.size > 1), key=len)
        return np.broadcast_to(operation(*[one(x) if x.size > 1 else x.reshape(1) for x in operands]), shape)
    return operation(*operands)


def rounded(values: np.ndarray, dtype: Any) -> Any:
    """A handle of `dtype` from computed values; comparisons stay boolean."""
    if values.dtype == bool:
        return make(values, tl.int1)
    name = str(dtype.scalar)
    if name == "bf16" or number_formats.is_float8(name):
        return make(from_float(values, dtype), dtype.scalar)
    target = numpy_dtype(dtype)
    return make(values if values.dtype == target else values.astype(target), dtype.scalar)


def binary_op(self: Any, lhs: Any, rhs: Any, op: Callable[..., np.ndarray]) -> Any:
    """Any two-operand operator of the builder."""
    return rounded(apply(op, to_float(lhs), to_float(rhs)), lhs.dtype)


def unary_op(self: Any, arg: Any, op: Callable[..., np.ndarray]) -> Any:
    """Any one-operand operator of the builder."""
    return rounded(apply(op, to_float(arg)), arg.dtype)


def watched(name: str, operation: Callable[..., np.ndarray]) -> Callable[..., Any]:
    """Integer `add`, `sub` or `mul` that notes where int32 wraps around."""

    def method(self: Any, lhs: Any, rhs: Any) -> Any:
        result = binary_op(self, lhs, rhs, operation)
        overflow.follow(name, operation, lhs, rhs, result)
        return result

    return method


def number_or_other(choose: Callable[..., np.ndarray]) -> Callable[..., Any]:
    """IEEE maxNum or minNum: a NaN loses against a number, but an undefined value spoils the result."""

    def operation(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        result = choose(left, right)
        if result.dtype.kind != "f":
            return result
        for side in (left, right):
            bad = number_formats.poisoned(side)
            if bad.any():
                result = np.where(bad, side, result)
        return result

    return lambda self, lhs, rhs: binary_op(self, lhs, rhs, operation)


def fma(self: Any, x: Any, y: Any, z: Any) -> Any:
    """`x * y + z`, in the operands' precision."""
    return rounded(apply(lambda a, b, c: a * b + c, to_float(x), to_float(y), to_float(z)), z.dtype)


def clampf(self: Any, arg: Any, low: Any, high: Any, propagate_nans: Any) -> Any:
    """`tl.clamp`."""
    return rounded(apply(np.clip, to_float(arg), to_float(low), to_float(high)), arg.dtype)


def erf(values: np.ndarray) -> np.ndarray:
    """The error function; numpy has none, PyTorch's is vectorised."""
    import torch

    if is_fake():
        return np.zeros_like(values)
    flat = torch.from_numpy(np.ascontiguousarray(values))
    return torch.erf(flat).numpy().reshape(values.shape)


def cast(self: Any, source: Any, target: Any) -> Any:
    """Every numeric conversion."""
    if source.dtype.scalar == target.scalar and source.data.dtype == numpy_dtype(target.scalar):
        return source
    if is_emulated(source) or str(target.scalar) == "bf16" or number_formats.is_float8(str(target.scalar)):
        return make(apply(lambda x: from_float(x, target), to_float(source)), target.scalar)
    result = make(apply(lambda x: x.astype(numpy_dtype(target)), source.data), target.scalar)
    if source.data.dtype == np.int32:
        overflow.hand_on(source, result, lambda wrapped: wrapped)
    return result


def float_to_float(self: Any, source: Any, target: Any, rounding: Any) -> Any:
    """Conversions to and from float8, and those with an explicit rounding mode."""
    for name in (str(source.dtype.scalar), str(target.scalar)):
        if name.startswith("fp8") and not number_formats.is_float8(name):
            raise KernelFault(
                "unsupported_in_kernel",
                f"the interpreter cannot convert {source.dtype.scalar} to {target.scalar}",
                current().where(),
                "Use tl.float8e4nv or tl.float8e5, or compute in float32.",
            )
    toward_zero = rounding is not None and str(rounding).endswith("RTZ")
    values = apply(lambda x: from_float(x, target, toward_zero=toward_zero), to_float(source))
    return make(values, target.scalar)


def shapely(name: str, reshape: Callable[..., np.ndarray]) -> Callable[..., Any]:
    """An operator that moves or repeats elements, and keeps what is known of their range."""

    def method(self: Any, arg: Any, *rest: Any) -> Any:
        result = make(reshape(arg.data, *rest), arg.dtype.scalar)
        overflow.hand_on(arg, result, lambda wrapped: reshape(wrapped, *rest))
        return result

    method.__name__ = name
    return method


def splat(self: Any, result_type: Any, arg: Any) -> Any:
    """A scalar repeated over a block; a real run gets memory of its own, a fake run a view."""
    shape = tuple(result_type.shape)
    scalar = arg.data.reshape(-1)[:1].astype(numpy_dtype(arg.dtype), copy=False)
    repeated = np.broadcast_to(scalar, shape)
    result = make(repeated if is_fake() else repeated.copy(), arg.dtype.scalar)
    overflow.hand_on(arg, result, lambda wrapped: np.broadcast_to(wrapped.reshape(-1)[:1], shape))
    return result


def add_pointer(self: Any, pointer: Any, offset: Any) -> Any:
    """Pointer plus element offset, in bytes."""
    size = max(1, pointer.get_element_ty().primitive_bitwidth // 8)
    step = np.uint64(size) * offset.data.astype(np.uint64)
    result = make(pointer.data + step, pointer.dtype)
    wrapped = overflow._either(pointer.attr.get(overflow.WRAPPED), offset.attr.get(overflow.WRAPPED))
    if wrapped is not None:
        result.attr[overflow.WRAPPED] = np.broadcast_to(wrapped, result.data.shape)
    return result


def install(builder: type[InterpreterBuilder]) -> None:
    """Replace the builder's elementwise operators."""
    builder.binary_op, builder.unary_op, builder.cast_impl = binary_op, unary_op, cast
    builder.create_fp_to_fp, builder.create_fma, builder.create_clampf = float_to_float, fma, clampf
    builder.create_add = watched("add", np.add)
    builder.create_sub = watched("sub", np.subtract)
    builder.create_mul = watched("mul", np.multiply)
    builder.create_maxnumf = number_or_other(np.fmax)
    builder.create_minnumf = number_or_other(np.fmin)
    builder.create_erf = lambda self, arg: unary_op(self, arg, erf)
    builder.create_rsqrt = lambda self, arg: unary_op(self, arg, lambda x: 1 / np.sqrt(x))
    builder.create_broadcast = shapely("broadcast", lambda x, shape: np.broadcast_to(x, tuple(shape)))
    builder.create_expand_dims = shapely("expand_dims", np.expand_dims)
    builder.create_reshape = shapely("reshape", _reshape)
    builder.create_cat = concatenate
    builder.create_idiv = divide
    builder.create_trans = shapely("trans", np.transpose)
    builder.create_splat, builder.create_addptr = splat, add_pointer
    builder.get_bf16 = lambda self, value: make(from_float(np.array([value], np.float32), tl.bfloat16), tl.bfloat16)


def concatenate(self: Any, lhs: Any, rhs: Any) -> Any:
    """`tl.cat` where the kernel allows any order: by turns, which is one."""
    return make(_by_turns(np.concatenate([lhs.data.reshape(-1), rhs.data.reshape(-1)])), lhs.dtype.scalar)


def divide(self: Any, lhs: Any, rhs: Any) -> Any:
    """Integer division, toward zero; by zero it gives all bits set, as on NVIDIA's hardware."""
    by_zero = rhs.data == 0
    divisor = np.where(by_zero, rhs.data.dtype.type(1), rhs.data) if by_zero.any() else rhs.data
    quotient = (lhs.data - np.fmod(lhs.data, divisor)) // divisor
    if by_zero.any():
        quotient = np.where(by_zero, ~np.zeros((), quotient.dtype), quotient)
    return make(quotient, lhs.dtype.scalar)


def _reshape(data: np.ndarray, shape: Any, allow_reorder: bool) -> np.ndarray:
    """numpy copies a uniform array when it reshapes it; a view of one element is enough. Where any order is allowed
    (`tl.view`), the elements take another one."""
    if is_uniform(data):
        return np.broadcast_to(one(data), tuple(shape))
    if allow_reorder and [n for n in data.shape if n > 1] != [n for n in shape if n > 1]:
        data = _by_turns(data.reshape(-1))
    return data.reshape(tuple(shape))


def _by_turns(flat: np.ndarray) -> np.ndarray:
    """First and second half interleaved."""
    return flat.reshape(2, -1).T.reshape(-1) if flat.size % 2 == 0 else flat
