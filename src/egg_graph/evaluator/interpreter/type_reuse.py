"""Types and tensors of `triton.language` with what was worked out before for the same shape.

Triton makes a type and a tensor for every result of every operator, and works shapes out anew each time: a third of an
interpreted program's time. Each tensor still gets a tuple of its own for its shape. Operands of one shape and one
number format need no conversion, and are not looked at for one.
"""

from __future__ import annotations

from typing import Any

import triton.language as tl
from triton.language.semantic import TritonSemantic

FLOATS = (tl.float16, tl.float32, tl.float64)
PLAIN = (*FLOATS, tl.int32, tl.int64)
"""Number formats whose arithmetic with themselves stays in them, but for division."""
INT32 = (-(1 << 31), (1 << 31) - 1)
"""Integers that all of those hold, or round to."""
_core: Any = tl.core
_make_type, _make_tensor = _core.block_type.__init__, _core.tensor.__init__
_broadcast = TritonSemantic.broadcast_impl_value
_convert = TritonSemantic.binary_op_type_checking_impl
_of_types: dict[tuple[str, tuple[int, ...]], tuple[Any, int, str]] = {}
"""Shape, number of elements and name of each block type made so far, by the element's name and the sizes."""
_of_tensors: dict[int, tuple[Any, list[Any], Any, Any]] = {}
"""The type's shape (None of a scalar), and a tensor's sizes, their type and number of elements, by the identity of that
shape."""
_shapes: dict[tuple[int, ...], Any] = {}
"""The one shape of all block types of these sizes."""


def _block_type(self: Any, element_ty: Any, shape: Any) -> None:
    """`block_type.__init__`."""
    values = shape if type(shape) is list else getattr(shape, "values", None)
    if type(element_ty) not in (_core.dtype, _core.pointer_type) or type(values) is not list:
        _make_type(self, element_ty, shape)
        return
    sizes = tuple([size.value if type(size) is _core.constexpr else size for size in values])
    known = _of_types.get((element_ty.name, sizes))
    if known is None:
        _make_type(self, element_ty, shape)
        self.shape = _shapes.setdefault(sizes, self.shape)
        _of_types[element_ty.name, sizes] = self.shape, self.numel, self.name
        return
    self.element_ty = element_ty
    self.shape, self.numel, self.name = known


def _tensor(self: Any, handle: Any, type: Any) -> None:
    """`tensor.__init__`."""
    shape = type.shape if type.is_block() else None
    known = _of_tensors.get(id(shape))
    if known is None:
        _make_tensor(self, handle, type)
        _of_tensors[id(shape)] = shape, self.shape.values.copy(), self.shape.type, self.numel
        return
    self.handle, self.type, self.dtype = handle, type, type.scalar
    self.shape, self.numel = _tuple_of(known[1], known[2]), known[3]


def _tuple_of(values: list[Any], type: Any) -> Any:
    """A tuple of the language with a list of its own."""
    made = object.__new__(_core.tuple)
    made.values, made.type = values.copy(), type
    return made


def _broadcast_impl_value(self: Any, lhs: Any, rhs: Any) -> Any:
    """`TritonSemantic.broadcast_impl_value`."""
    left, right = lhs.type, rhs.type
    if left.is_block():
        if right.is_block() and left.shape is right.shape:
            return lhs, rhs
    elif not right.is_block():
        return lhs, rhs
    return _broadcast(self, lhs, rhs)


def _is_among(formats: tuple[Any, ...], dtype: Any) -> bool:
    return any(dtype is one for one in formats)


def _takes(dtype: Any, number: Any) -> bool:
    """Whether a number of Python takes on a tensor's format, whatever it is."""
    if type(number) is int:
        return INT32[0] <= number <= INT32[1] and _is_among(PLAIN, dtype)
    return type(number) is float and _is_among(FLOATS, dtype)


def _binary_op_type_checking_impl(
    self: Any,
    lhs: Any,
    rhs: Any,
    allow_lhs_ptr: bool = False,
    allow_rhs_ptr: bool = False,
    arithmetic_check: bool = True,
    div_or_mod: bool = False,
) -> Any:
    """`TritonSemantic.binary_op_type_checking_impl`."""
    if arithmetic_check and not div_or_mod:
        left, right = type(lhs) is _core.tensor, type(rhs) is _core.tensor
        if left and right:
            if lhs.dtype is rhs.dtype and _is_among(PLAIN, lhs.dtype):
                return self.broadcast_impl_value(lhs, rhs)
        elif left and _takes(lhs.dtype, rhs):
            return self.broadcast_impl_value(lhs, self.scalar_constant(rhs, dtype=lhs.dtype))
        elif right and _takes(rhs.dtype, lhs):
            return self.broadcast_impl_value(self.scalar_constant(lhs, dtype=rhs.dtype), rhs)
    return _convert(self, lhs, rhs, allow_lhs_ptr, allow_rhs_ptr, arithmetic_check, div_or_mod)


def install() -> None:
    """Replace how Triton's language makes types and tensors, and how it converts operands."""
    _core.block_type.__init__, _core.tensor.__init__ = _block_type, _tensor
    TritonSemantic.broadcast_impl_value = _broadcast_impl_value
    TritonSemantic.binary_op_type_checking_impl = _binary_op_type_checking_impl
