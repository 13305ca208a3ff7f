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

from egg_graph.evaluator.wire.exchange import DTYPES

HANDLE_BYTES = 64
shared_bytes = [0]
"""What live `SharedBuffer`s of this process hold; one element, so that it can be counted."""
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
        shared_bytes[0] += size.value
        return cls(pointer.value, nbytes)

    def handle(self) -> str:
        """What another process opens this buffer by, as hexadecimal text."""
        handle = _Handle()
        _check(_driver().cuIpcGetMemHandle(ctypes.byref(handle), ctypes.c_uint64(self.pointer)), "cuIpcGetMemHandle")
        return bytes(handle).hex()

    def raw(self, offset: int, nbytes: int) -> torch.Tensor:
        """Flat uint8 tensor over a part of it."""
        return raw_bytes(self.pointer + offset, nbytes)

    def free(self) -> None:
        _check(_driver().cuMemFree_v2(ctypes.c_uint64(self.pointer)), "cuMemFree")
        shared_bytes[0] -= max(self.nbytes, 512)


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


def raw_bytes(pointer: int, nbytes: int) -> torch.Tensor:
    """Flat uint8 tensor over device memory at an address of this process."""
    if nbytes == 0:
        return torch.empty(0, dtype=torch.uint8, device="cuda")
    interface = {"data": (pointer, False), "shape": (nbytes,), "typestr": "|u1", "version": 3, "strides": None}
    return torch.as_tensor(SimpleNamespace(__cuda_array_interface__=interface), device="cuda")


def shaped(raw: torch.Tensor, form: dict[str, Any]) -> torch.Tensor:
    """A tensor over flat bytes; `form` gives dtype, shape and stride (dense, in any order)."""
    dtype = DTYPES[form["dtype"]]
    if math.prod(form["shape"]) == 0:
        return torch.empty(form["shape"], dtype=dtype, device=raw.device)
    return raw.view(dtype).as_strided(form["shape"], form["stride"])


def view(pointer: int, form: dict[str, Any]) -> torch.Tensor:
    """The tensor that `gpu_arena.Arena` described by `form`, in the process that opened its buffer at `pointer`; with
    `room`, a view whose storage begins so many bytes before."""
    nbytes, room = math.prod(form["shape"]) * DTYPES[form["dtype"]].itemsize, form.get("room", 0)
    return shaped(raw_bytes(pointer + form.get("offset", 0) - room, nbytes + room)[room:], form)
