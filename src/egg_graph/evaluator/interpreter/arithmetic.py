"""Elementwise operators of the interpreter's builder.

Triton's own compute on the bits of bfloat16 and float8 as if they were integers, let int32 wrap unnoticed, and work on
every element of a block. These convert bfloat16 and float8 to float32 and back, track int32 overflow, and work on one
element where all are the same (as loads of a fake run are).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime.interpreter import InterpreterBuilder

from egg_graph.evaluator.interpreter import overflow
from egg_graph.evaluator.interpreter.denormals import flushing
from egg_graph.evaluator.interpreter.directed_rounding import to_integer
from egg_graph.evaluator.interpreter.exact_arithmetic import fused
from egg_graph.evaluator.interpreter.handles import (
    from_float,
    is_uniform,
    make,
    numpy_dtype,
    one,
    repeated,
    to_float,
)
from egg_graph.evaluator.interpreter.integer_intrinsics import unsigned_high_product
from egg_graph.evaluator.interpreter.number_formats import is_float8
from egg_graph.evaluator.interpreter.poison import is_poisoned
from egg_graph.evaluator.interpreter.run_state import current_run, is_fake
from egg_graph.evaluator.wire.faults import KernelFault, Unfakeable

Operation = Callable[..., np.ndarray]


def apply(operation: Operation, *operands: np.ndarray) -> np.ndarray:
    """Apply `operation` to arrays; in a fake run to one element only, if each operand repeats a single one."""
    if is_fake() and any(x.size > 1 for x in operands) and all(is_uniform(x) or x.size == 1 for x in operands):
        shape = max((x.shape for x in operands if x.size > 1), key=len)
        return repeated(operation(*[one(x) if x.size > 1 else x.reshape(1) for x in operands]), shape)
    return operation(*operands)


def rounded(values: np.ndarray, dtype: Any) -> Any:
    """Make a handle of `dtype` from computed values; comparisons stay boolean."""
    if values.dtype == bool:
        return make(values, tl.int1)
    name = str(dtype.scalar)
    if name == "bf16" or is_float8(name):
        return make(from_float(values, dtype), dtype.scalar)
    target = numpy_dtype(dtype)
    return make(values if values.dtype == target else values.astype(target), dtype.scalar)


def binary_op(self: Any, lhs: Any, rhs: Any, op: Operation) -> Any:
    """Replace `binary_op`, through which most operators of two operands go."""
    return rounded(apply(op, to_float(lhs), to_float(rhs)), lhs.dtype)


def unary_op(self: Any, arg: Any, op: Operation) -> Any:
    """Replace `unary_op`, through which most operators of one operand go."""
    return rounded(apply(op, to_float(arg)), arg.dtype)


def overflow_tracked(name: str, operation: Operation) -> Callable[..., Any]:
    """Make `create_add`, `create_sub` or `create_mul`, which track where int32 wraps around."""

    def method(self: Any, lhs: Any, rhs: Any) -> Any:
        result = binary_op(self, lhs, rhs, operation)
        overflow.track(name, operation, lhs, rhs, result)
        return result

    return method


def extreme(choose: Operation, *, greatest: bool) -> Operation:
    """Make the maximum or minimum of floats: of `np.fmax` or `np.fmin`, where a NaN loses, or of those where it wins.

    An undefined value always wins, because it could be any number. -0 lies below 0, as in `max.f32` and `min.f32`, by
    which LLVM implements its ordered maximum and minimum.
    """

    def operation(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        result = choose(left, right)
        if result.dtype.kind != "f":
            return result
        zeros = (left == 0) & (right == 0)
        if zeros.any():
            both = np.logical_and if greatest else np.logical_or
            zero = np.where(both(np.signbit(left), np.signbit(right)), -0.0, 0.0).astype(result.dtype)
            result = np.where(zeros, zero, result)
        for side in (left, right):
            bad = is_poisoned(side)
            if bad.any():
                result = np.where(bad, side, result)
        return result

    return operation


LARGER, SMALLER = extreme(np.fmax, greatest=True), extreme(np.fmin, greatest=False)
"""`create_maxnumf` and `create_minnumf` (IEEE 754 maxNum, minNum), for which Triton's own let NaN win."""
LARGER_OR_NAN, SMALLER_OR_NAN = extreme(np.maximum, greatest=True), extreme(np.minimum, greatest=False)


def by(operation: Operation) -> Callable[..., Any]:
    """Make an operator of two operands."""
    return lambda self, lhs, rhs: binary_op(self, lhs, rhs, operation)


def fma(self: Any, x: Any, y: Any, z: Any) -> Any:
    """Replace `create_fma`: `x * y + z`, rounded once (`fma.rn`)."""
    return rounded(apply(fused, to_float(x), to_float(y), to_float(z)), z.dtype)


def float_remainder(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Compute `x % y` as LLVM's code for NVIDIA does: `x - trunc(x / y) y` with an fma; x where y is infinite."""
    remainder = fused(-np.trunc(x / y), y, x).astype(x.dtype)
    return np.where(np.isinf(y), x, remainder)


def clampf(self: Any, arg: Any, low: Any, high: Any, propagate_nans: Any) -> Any:
    """Replace `create_clampf`, the operator of `tl.clamp`: of a NaN it makes `low`, unless NaN is to be kept."""
    keeps = propagate_nans.name == "ALL"
    larger, smaller = (LARGER_OR_NAN, SMALLER_OR_NAN) if keeps else (LARGER, SMALLER)
    operands = [to_float(x) for x in (arg, low, high)]
    return rounded(apply(lambda x, least, most: smaller(larger(x, least), most), *operands), arg.dtype)


def torch_special(name: str) -> Callable[[np.ndarray], np.ndarray]:
    """Make a function that numpy lacks from `torch.special`; in a fake run it gives zeros."""

    def function(values: np.ndarray) -> np.ndarray:
        import torch

        if is_fake():
            return np.zeros_like(values)
        flat = torch.from_numpy(np.ascontiguousarray(values))
        return getattr(torch.special, name)(flat).numpy().reshape(values.shape)

    return function


def cast(self: Any, source: Any, target: Any) -> Any:
    """Replace `cast_impl`, the operator of numeric conversions; keep what is known of an int32's range."""
    if source.dtype.scalar == target.scalar and source.data.dtype == numpy_dtype(target.scalar):
        return source
    storage = numpy_dtype(target)
    if str(target.scalar) == "bf16" or is_float8(str(target.scalar)):
        return make(apply(lambda x: from_float(x, target), to_float(source)), target.scalar)
    values = to_float(source)
    truncates = values.dtype.kind == "f" and storage.kind in "iu"
    convert: Operation = truncated_to(storage) if truncates else lambda x: x.astype(storage)
    result = make(apply(convert, values), target.scalar)
    if source.data.dtype == np.int32:
        overflow.pass_on(source, result, lambda wrapped: wrapped)
    return result


def truncated_to(target: np.dtype[Any]) -> Operation:
    """Make a cast of floats to integers, which saturates (`cvt.rzi`); to 8 bits it goes through 16."""
    wide = np.dtype(f"{target.kind}2") if target.itemsize == 1 else target
    convert = to_integer(wide.type, "rz")
    return lambda x: convert(x).astype(target)


def float_to_float(self: Any, source: Any, target: Any, rounding: Any) -> Any:
    """Replace `create_fp_to_fp`, which converts to and from float8 and takes an explicit rounding mode.

    Raises:
        KernelFault: `unsupported_in_kernel`, for a float8 format that is not known here.
    """
    for name in (str(source.dtype.scalar), str(target.scalar)):
        if name.startswith("fp8") and not is_float8(name):
            raise KernelFault(
                "unsupported_in_kernel",
                f"the interpreter cannot convert {source.dtype.scalar} to {target.scalar}",
                current_run().where(),
                "Use tl.float8e4nv or tl.float8e5, or compute in float32.",
            )
    toward_zero = rounding is not None and str(rounding).endswith("RTZ")
    values = apply(lambda x: from_float(x, target, toward_zero=toward_zero), to_float(source))
    return make(values, target.scalar)


def divide(self: Any, lhs: Any, rhs: Any) -> Any:
    """Replace `create_idiv`: integers divide toward zero.

    By zero they give all bits set, as 32-bit integers do on NVIDIA GPUs. The PTX ISA leaves it open (`div`), and it is
    otherwise for 64 bits, while of two 8-bit quotients in one register a zero divisor spoils both.

    Raises:
        Unfakeable: in a fake run, if it divides by zero: loads gave the divisor.
    """
    by_zero = rhs.data == 0
    if is_fake() and by_zero.any():
        raise Unfakeable("it divides by a number that was read from memory")
    divisor = np.where(by_zero, rhs.data.dtype.type(1), rhs.data) if by_zero.any() else rhs.data
    quotient = (lhs.data - np.fmod(lhs.data, divisor)) // divisor
    if by_zero.any():
        quotient = np.where(by_zero, ~np.zeros((), quotient.dtype), quotient)
    return make(quotient, lhs.dtype.scalar)


def all_ones(self: Any, dtype: Any) -> Any:
    """Replace `get_all_ones_value`, which numpy refuses to make of -1 for an unsigned type (`~x`)."""
    return make(np.array([-1]).astype(numpy_dtype(dtype)), dtype.scalar)


def range_preserving(name: str, reshape: Operation) -> Callable[..., Any]:
    """Make an operator that moves or repeats elements, and keeps their value range and overflow marks."""

    def method(self: Any, arg: Any, *rest: Any) -> Any:
        result = make(reshape(arg.data, *rest), arg.dtype.scalar)
        overflow.pass_on(arg, result, lambda wrapped: reshape(wrapped, *rest))
        return result

    method.__name__ = name
    return method


def splat(self: Any, result_type: Any, arg: Any) -> Any:
    """Replace `create_splat`: repeat a scalar over a block, as a copy in a real run and as a view in a fake run."""
    shape = tuple(result_type.shape)
    scalar = arg.data.reshape(-1)[:1].astype(numpy_dtype(arg.dtype), copy=False)
    if is_fake():
        block = repeated(scalar, shape)
    else:
        block = np.empty(shape, scalar.dtype)
        block[...] = scalar
    result = make(block, arg.dtype.scalar)
    overflow.pass_on(arg, result, lambda wrapped: repeated(wrapped.reshape(-1)[:1], shape))
    return result


def add_pointer(self: Any, pointer: Any, offset: Any) -> Any:
    """Replace `create_addptr`: add an offset in elements to a pointer, and pass on the offset's overflow marks."""
    size = max(1, pointer.get_element_ty().primitive_bitwidth // 8)
    step = np.uint64(size) * offset.data.astype(np.uint64)
    result = make(pointer.data + step, pointer.dtype)
    overflow.track_pointer(pointer, offset, result)
    return result


def concatenate(self: Any, lhs: Any, rhs: Any) -> Any:
    """Replace `create_cat`, the operator of `tl.cat(can_reorder=True)`.

    The kernel allows any order of the elements, so it gets another one than it may take for granted.
    """
    return make(_interleave_halves(np.concatenate([lhs.data.reshape(-1), rhs.data.reshape(-1)])), lhs.dtype.scalar)


def _reshape(data: np.ndarray, shape: Any, allow_reorder: bool) -> np.ndarray:
    """Reshape a block. Where the kernel allows any order (`tl.view`), the order of the elements changes.

    So it may on a GPU even if the shape stays, because the compiler lays both blocks out as it likes. A uniform array
    stays a view of one element; numpy would copy it.
    """
    if is_uniform(data):
        return repeated(one(data), tuple(shape))
    if allow_reorder:
        data = _interleave_halves(data.reshape(-1))
    return data.reshape(tuple(shape))


def _interleave_halves(flat: np.ndarray) -> np.ndarray:
    return flat.reshape(2, -1).T.reshape(-1) if flat.size % 2 == 0 else flat


def install(builder: type[InterpreterBuilder]) -> None:
    """Replace the builder's elementwise operators, and add `get_bf16`, which it lacks."""
    builder.binary_op, builder.unary_op, builder.cast_impl = binary_op, unary_op, cast
    builder.create_fp_to_fp, builder.create_fma, builder.create_clampf = float_to_float, fma, clampf
    builder.create_add = overflow_tracked("add", np.add)
    builder.create_sub = overflow_tracked("sub", np.subtract)
    builder.create_mul = overflow_tracked("mul", np.multiply)
    builder.create_maxnumf, builder.create_minnumf = by(LARGER), by(SMALLER)
    builder.create_maximumf, builder.create_minimumf = by(LARGER_OR_NAN), by(SMALLER_OR_NAN)
    builder.create_erf = lambda self, arg: unary_op(self, arg, torch_special("erf"))
    builder.create_rsqrt = lambda self, arg: unary_op(self, arg, flushing(lambda x: 1 / np.sqrt(x)))
    builder.create_sqrt = lambda self, arg: unary_op(self, arg, flushing(np.sqrt))
    builder.create_floor = lambda self, arg: unary_op(self, arg, flushing(np.floor))
    builder.create_ceil = lambda self, arg: unary_op(self, arg, flushing(np.ceil))
    builder.create_broadcast = range_preserving("broadcast", lambda x, shape: repeated(x, tuple(shape)))
    builder.create_expand_dims = range_preserving("expand_dims", np.expand_dims)
    builder.create_reshape = range_preserving("reshape", _reshape)
    builder.create_trans = range_preserving("trans", np.transpose)
    builder.create_cat, builder.create_idiv = concatenate, divide
    builder.create_splat, builder.create_addptr = splat, add_pointer
    builder.create_frem = by(float_remainder)
    builder.get_all_ones_value = all_ones
    builder.create_umulhi = by(unsigned_high_product)
    builder.get_bf16 = lambda self, value: make(from_float(np.array([value], np.float32), tl.bfloat16), tl.bfloat16)
