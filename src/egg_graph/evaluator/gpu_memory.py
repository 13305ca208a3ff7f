"""GPU memory that two processes see: CUDA's own inter-process handles over the driver's interface.

The judge owns every buffer; a candidate's process opens it by a 64-byte handle that travels as text. Nothing is
pickled and nothing counts references, so a killed process leaves no memory behind. The driver is used directly because
PyTorch's caching allocator would keep what it shared until the other process says goodbye.
"""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

import torch

from egg_graph.evaluator.exchange import DTYPES, dtype_name

HANDLE_BYTES = 64
_LAZY_PEER_ACCESS = 1


class _Handle(ctypes.Structure):
    _fields_ = [("reserved", ctypes.c_char * HANDLE_BYTES)]


@cache
def _driver() -> ctypes.CDLL:
    torch.cuda.init()
    torch.cuda.synchronize()  # makes the primary context current in this thread
    return ctypes.CDLL("libcuda.so.1")


def _check(code: int, what: str) -> None:
    if code == 2:
        raise torch.OutOfMemoryError(f"{what}: out of GPU memory")
    if code != 0:
        raise RuntimeError(f"{what}: CUDA driver error {code}")


@dataclass
class SharedBuffer:
    """Device memory of this process that others may open; freed by `free`."""

    pointer: int
    nbytes: int

    @classmethod
    def allocate(cls, nbytes: int) -> SharedBuffer:
        """Raises torch.OutOfMemoryError where the GPU has no more."""
        pointer = ctypes.c_uint64()
        size = ctypes.c_size_t(max(nbytes, 512))
        code = _driver().cuMemAlloc_v2(ctypes.byref(pointer), size)
        if code == 2:
            torch.cuda.empty_cache()  # what PyTorch only keeps in reserve may be enough
            code = _driver().cuMemAlloc_v2(ctypes.byref(pointer), size)
        _check(code, f"allocating {nbytes} bytes")
        return cls(pointer.value, nbytes)

    def handle(self) -> str:
        """What another process opens this buffer by, as hexadecimal text."""
        handle = _Handle()
        _check(_driver().cuIpcGetMemHandle(ctypes.byref(handle), ctypes.c_uint64(self.pointer)), "cuIpcGetMemHandle")
        return bytes(handle).hex()

    def free(self) -> None:
        _check(_driver().cuMemFree_v2(ctypes.c_uint64(self.pointer)), "cuMemFree")


def open_handle(text: str) -> int:
    """Address, in this process, of a buffer that another one owns."""
    handle = _Handle.from_buffer_copy(bytes.fromhex(text))
    pointer = ctypes.c_uint64()
    _check(
        _driver().cuIpcOpenMemHandle_v2(ctypes.byref(pointer), handle, ctypes.c_uint(_LAZY_PEER_ACCESS)),
        "cuIpcOpenMemHandle",
    )
    return pointer.value


def close_handle(pointer: int) -> None:
    """Give back a buffer that `open_handle` opened, before its owner frees it."""
    _check(_driver().cuIpcCloseMemHandle(ctypes.c_uint64(pointer)), "cuIpcCloseMemHandle")


def view(pointer: int, form: dict[str, Any]) -> torch.Tensor:
    """A tensor over raw device memory; `form` gives dtype, shape and stride (dense, in any order)."""
    dtype = DTYPES[form["dtype"]]
    count = math.prod(form["shape"])
    if count == 0:
        return torch.empty(form["shape"], dtype=dtype, device="cuda")
    raw = SimpleNamespace(
        __cuda_array_interface__={
            "data": (pointer, False),
            "shape": (count * dtype.itemsize,),
            "typestr": "|u1",
            "version": 3,
            "strides": None,
        }
    )
    return torch.as_tensor(raw, device="cuda").view(dtype).as_strided(form["shape"], form["stride"])


class Arena:
    """All buffers shared with one worker; freed together."""

    def __init__(self) -> None:
        self.buffers: list[SharedBuffer] = []
        self.handles: list[str] = []

    def share(self, tensor: torch.Tensor) -> tuple[torch.Tensor, dict[str, Any]]:
        """A shared copy of a tensor, and the form by which the other process opens it."""
        dense = bool(torch.ops.aten.is_non_overlapping_and_dense(tensor))
        stride = tensor.stride() if dense else tensor.contiguous().stride()
        mine, form = self.empty(tensor.shape, tensor.dtype, stride)
        mine.copy_(tensor)
        return mine, form

    def empty(
        self, shape: tuple[int, ...] | torch.Size, dtype: torch.dtype, stride: tuple[int, ...] | None = None
    ) -> tuple[torch.Tensor, dict[str, Any]]:
        """A shared tensor of unset content, and its form."""
        like = torch.empty(shape, dtype=dtype, device="meta")
        buffer = SharedBuffer.allocate(math.prod(shape) * dtype.itemsize)
        self.buffers.append(buffer)
        self.handles.append(buffer.handle())
        form = {"dtype": dtype_name(like), "shape": list(shape), "stride": list(stride or like.stride())}
        return view(buffer.pointer, form), {**form, "handle": self.handles[-1]}

    def free(self) -> None:
        """Free all of it. Tensors over it must not be used again."""
        torch.cuda.synchronize()
        while self.buffers:
            self.buffers.pop().free()
