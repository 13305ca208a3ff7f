"""Types and tensors of `triton.language` with what was worked out before for the same shape.

Triton makes a type and a tensor for every result of every operator, and works shapes out anew each time: a third of an
interpreted program's time. Each tensor still gets a tuple of its own for its shape. Operands of one shape and one
number format need no conversion, and are not looked at for one.
"""

from __future__ import annotations

from typing import Any

import triton.language as tl
from triton.language.semantic import TritonSemantic

PLAIN = (tl.float16, tl.float32, tl.float64, tl.int32, tl.int64)
"""Number formats whose arithmetic with themselves stays in them, but for division."""
_core: Any = tl.core
_make_type, _make_tensor = _core.block_type.__init__, _core.tensor.__init__
_broadcast = TritonSemantic.broadcast_impl_value
_convert = TritonSemantic.binary_op_type_checking_impl
_of_types: dict[tuple[str, tuple[int, ...]], tuple[Any, int, str]] = {}
"""Shape, number of elements and name of each block type made so far, by the element's name and the sizes."""
_of_tensors: dict[int, tuple[Any, list[Any], Any, Any]] = {}
"""The type's shape, and a tensor's sizes, their type and number of elements, by the identity of that shape."""
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
    known = _of_tensors.get(id(type.shape)) if type.is_block() else None
    if known is None:
        _make_tensor(self, handle, type)
        if type.is_block():
            _of_tensors[id(type.shape)] = type.shape, self.shape.values, self.shape.type, self.numel
            self.shape = _tuple_of(self.shape.values, self.shape.type)
        return
    self.handle, self.type, self.dtype = handle, type, type.element_ty
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
    if (
        not div_or_mod
        and type(lhs) is _core.tensor
        and type(rhs) is _core.tensor
        and lhs.dtype is rhs.dtype
        and any(lhs.dtype is plain for plain in PLAIN)
    ):
        return self.broadcast_impl_value(lhs, rhs)
    return _convert(self, lhs, rhs, allow_lhs_ptr, allow_rhs_ptr, arithmetic_check, div_or_mod)


def install() -> None:
    """Replace how Triton's language makes types and tensors, and how it converts operands."""
    _core.block_type.__init__, _core.tensor.__init__ = _block_type, _tensor
    TritonSemantic.broadcast_impl_value = _broadcast_impl_value
    TritonSemantic.binary_op_type_checking_impl = _binary_op_type_checking_impl
