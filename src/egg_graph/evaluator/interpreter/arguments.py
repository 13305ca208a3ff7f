"""Arguments of a launch: what Triton's launcher specialises on, and what the interpreted kernel receives."""

from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from triton._utils import type_canonicalisation_dict
from triton.runtime import interpreter
from triton.runtime.jit import _normalize_ty

from egg_graph.evaluator.interpreter.address_space import AddressSpace
from egg_graph.evaluator.interpreter.handles import make
from egg_graph.evaluator.wire.faults import KernelFault
from egg_graph.evaluator.wire.launches import encode_constant

INT32, INT64 = np.iinfo(np.int32), np.iinfo(np.int64)


def is_tensor(value: Any) -> bool:
    """Whether a value is passed as a pointer: a `torch.Tensor` or what `triton.reinterpret` gives."""
    return hasattr(value, "data_ptr")


def is_descriptor(value: Any) -> bool:
    """Whether a value is a host-side `TensorDescriptor`."""
    return type(value).__name__ == "TensorDescriptor"


def element_name(dtype: Any) -> str:
    """Return Triton's name of a `torch` or Triton dtype: `fp32`, `bf16`, `i64`, `u1`."""
    name = str(dtype).removeprefix("torch.")
    return type_canonicalisation_dict[name]


def constexpr_names(function: Any) -> set[str]:
    """Return the parameters annotated `tl.constexpr`."""
    return {n for n, annotation in function.__annotations__.items() if "constexpr" in _normalize_ty(annotation)}


def typed_names(function: Any) -> set[str]:
    """Return the parameters annotated with a type, such as `tl.int32`; an argument of 1 is no constant there."""
    types = set(type_canonicalisation_dict.values())
    return {n for n, annotation in function.__annotations__.items() if _normalize_ty(annotation) in types}


def _unwrapped(tensor: Any) -> Any:
    """Return the `torch.Tensor` behind a reinterpreted one."""
    return tensor.base if isinstance(tensor, triton.runtime.jit.TensorWrapper) else tensor


class Specialisation:
    """Signature, constants and divisibility of one launch, by the rules of Triton's launcher.

    Args:
        bound: parameter -> argument.
        constexprs: parameters annotated `tl.constexpr`.
        unspecialised: parameters that the kernel excludes from specialisation.
        typed: parameters annotated with a type.

    The attributes are fields of `Launch`.
    """

    def __init__(self, bound: dict[str, Any], constexprs: set[str], unspecialised: set[str], typed: set[str]) -> None:
        self.typed = typed
        self.signature: dict[str, Any] = {}
        self.constexprs: dict[str, Any] = {}
        self.divisible: list[str] = []
        self.arguments: dict[str, str] = {}
        self.numbers: dict[str, str] = {}
        for name, value in bound.items():
            if name in constexprs:
                self.signature[name] = "constexpr"
                self.constexprs[name] = encode_constant(value)
            else:
                self.signature[name] = self._type(name, value, specialise=name not in unspecialised)

    def _type(self, path: str, value: Any, *, specialise: bool) -> Any:
        """Return the signature's type of one argument, and record its constant, alignment and form.

        Raises:
            KernelFault: `exception`, for a type that no kernel can take.
        """
        if isinstance(value, tl.constexpr):
            value = value.value
        if value is None or (specialise and path not in self.typed and type(value) is int and value == 1):
            self.constexprs[path] = value
            return "constexpr"
        if isinstance(value, bool | int | float):
            self.numbers[path] = repr(value)
        if isinstance(value, bool):
            return "u1"
        if isinstance(value, int):
            if specialise and value % 16 == 0:
                self.divisible.append(path)
            return "i32" if INT32.min <= value <= INT32.max else "i64" if value <= INT64.max else "u64"
        if isinstance(value, float):
            return "fp32"
        if is_descriptor(value):
            self.arguments[path] = describe(value.base)
            return f"tensordesc<{element_name(value.base.dtype)}{list(value.block_shape)}>"
        if is_tensor(value):
            tensor = _unwrapped(value)
            self.arguments[path] = describe(tensor)
            # CUDA's allocator aligns to 512 bytes, so only the offset into the storage can spoil the alignment.
            if specialise and int(tensor.storage_offset()) * tensor.element_size() % 16 == 0:
                self.divisible.append(path)
            return "*" + element_name(value.dtype)
        if isinstance(value, tuple):
            return [self._type(f"{path}.{i}", item, specialise=specialise) for i, item in enumerate(value)]
        raise KernelFault(
            "exception",
            f"argument '{path}' has type {type(value).__name__}, which a kernel cannot take",
            cure="Pass tensors, numbers, booleans, None, or declare the parameter tl.constexpr.",
        )


def describe(tensor: Any) -> str:
    """Describe a tensor as `float32[16, 1024]`."""
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def to_device(value: Any, name: str, memory: AddressSpace, *, fake: bool) -> Any:
    """Convert an argument to what the interpreted kernel receives: numbers become scalars, tensors virtual pointers.

    Raises:
        KernelFault: `forbidden_construct`, for an object that has a `data_ptr` but is no tensor.
    """
    if isinstance(value, tl.constexpr) or value is None:
        return value
    if isinstance(value, bool):
        return tl.tensor(make(np.array([value]), tl.int1), tl.int1)
    if isinstance(value, float):
        return tl.tensor(make(np.array([value], np.float32), tl.float32), tl.float32)
    if isinstance(value, int):
        name_of_type = "int32" if INT32.min <= value <= INT32.max else "int64" if value <= INT64.max else "uint64"
        element = getattr(tl, name_of_type)
        return tl.tensor(make(np.array([value], name_of_type), element), element)
    if is_descriptor(value):
        return _descriptor(value, name, memory, fake=fake)
    if is_tensor(value):
        if not isinstance(_unwrapped(value), torch.Tensor):
            raise KernelFault(
                "forbidden_construct",
                f"argument '{name}' is a {type(value).__name__}, no tensor: nobody knows where its memory ends",
                cure="Pass plain tensors.",
            )
        pointer = memory.pointer(_unwrapped(value), name, fake=fake)
        element = tl.str_to_ty("*" + element_name(value.dtype), None)
        return tl.tensor(make(np.array([pointer], np.uint64), element), element)
    if isinstance(value, tuple):
        items = [to_device(item, f"{name}.{i}", memory, fake=fake) for i, item in enumerate(value)]
        return type(value)(*items) if hasattr(value, "_fields") else tl.tuple(items)
    return value


def _descriptor(value: Any, name: str, memory: AddressSpace, *, fake: bool) -> Any:
    """Convert a host-side tensor descriptor to one on a virtual pointer."""
    strides: list[Any] = [to_device(int(s), name, memory, fake=fake) for s in value.strides]
    strides[-1] = tl.constexpr(int(value.strides[-1]))
    described = interpreter.interpreter_semantic.make_tensor_descriptor(
        base=to_device(value.base, name, memory, fake=fake),
        shape=[to_device(int(s), name, memory, fake=fake) for s in value.shape],
        strides=strides,
        block_shape=[tl.constexpr(b) for b in value.block_shape],
        padding_option=value.padding,
    )
    described.handle.round_to_tf32 = getattr(value, "round_f32_to_tf32", False)
    return described
