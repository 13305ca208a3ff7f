"""GPU memory that two processes share, by CUDA's inter-process handles (driver API, `cuIpc*`).

The judge owns every buffer. A candidate's process opens it by a 64-byte handle that travels as text. Nothing is pickled
and nothing counts references, so a killed process leaves no memory behind. PyTorch's caching allocator is not used: it
keeps shared memory until the other process has released it.
"""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

import torch

from egg_graph.evaluator.device.driver import OUT_OF_MEMORY, check_driver, load_libcuda
from egg_graph.evaluator.wire.exchange import DTYPES

HANDLE_BYTES = 64
"""Size of a `CUipcMemHandle` [bytes]."""
SMALLEST_BUFFER = 512
"""Smallest allocation of a `SharedBuffer` [bytes]."""
shared_bytes = [0]
"""Bytes that all live `SharedBuffer`s of this process hold. A list of one number, so that every module sees changes."""
_LAZY_PEER_ACCESS = 1
"""`CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS`."""


class _Handle(ctypes.Structure):
    _fields_ = [("reserved", ctypes.c_char * HANDLE_BYTES)]


_driver = cache(load_libcuda)


@dataclass
class SharedBuffer:
    """Device memory of this process that other processes may open.

    Its owner frees it by `free`.
    """

    pointer: int
    """Device address in this process."""
    nbytes: int
    """Requested size [bytes]."""

    @classmethod
    def allocate(cls, nbytes: int) -> SharedBuffer:
        """Allocate `nbytes` of device memory.

        Raises:
            torch.OutOfMemoryError: if the GPU has no more memory.
        """
        pointer = ctypes.c_uint64()
        size = ctypes.c_size_t(max(nbytes, SMALLEST_BUFFER))
        code = _driver().cuMemAlloc_v2(ctypes.byref(pointer), size)
        if code == OUT_OF_MEMORY:
            torch.cuda.empty_cache()  # PyTorch's unused reserve may be enough
            code = _driver().cuMemAlloc_v2(ctypes.byref(pointer), size)
        check_driver(code, f"allocating {nbytes} bytes")
        shared_bytes[0] += size.value
        return cls(pointer.value, nbytes)

    def handle(self) -> str:
        """Return the handle by which another process opens this buffer, as hexadecimal text."""
        handle = _Handle()
        check_driver(
            _driver().cuIpcGetMemHandle(ctypes.byref(handle), ctypes.c_uint64(self.pointer)), "cuIpcGetMemHandle"
        )
        return bytes(handle).hex()

    def raw(self, offset: int, nbytes: int) -> torch.Tensor:
        """Return a flat uint8 tensor over `nbytes` of this buffer, from `offset` [bytes]."""
        return raw_bytes(self.pointer + offset, nbytes)

    def free(self) -> None:
        """Free the memory; every process that opened it must have closed it."""
        check_driver(_driver().cuMemFree_v2(ctypes.c_uint64(self.pointer)), "cuMemFree")
        shared_bytes[0] -= max(self.nbytes, SMALLEST_BUFFER)


def open_handle(text: str) -> int:
    """Open a buffer that another process owns; returns its address in this process."""
    handle = _Handle.from_buffer_copy(bytes.fromhex(text))
    pointer = ctypes.c_uint64()
    check_driver(
        _driver().cuIpcOpenMemHandle_v2(ctypes.byref(pointer), handle, ctypes.c_uint(_LAZY_PEER_ACCESS)),
        "cuIpcOpenMemHandle",
    )
    return pointer.value


def close_handle(pointer: int) -> None:
    """Close a buffer that `open_handle` opened, before its owner frees it."""
    check_driver(_driver().cuIpcCloseMemHandle(ctypes.c_uint64(pointer)), "cuIpcCloseMemHandle")


def raw_bytes(pointer: int, nbytes: int) -> torch.Tensor:
    """Return a flat uint8 tensor over device memory at an address of this process."""
    if nbytes == 0:
        return torch.empty(0, dtype=torch.uint8, device="cuda")
    interface = {"data": (pointer, False), "shape": (nbytes,), "typestr": "|u1", "version": 3, "strides": None}
    return torch.as_tensor(SimpleNamespace(__cuda_array_interface__=interface), device="cuda")


def shaped(raw: torch.Tensor, form: dict[str, Any]) -> torch.Tensor:
    """Return a tensor over flat bytes; `form` gives dtype, shape and stride [elements] (dense, in any order)."""
    dtype = DTYPES[form["dtype"]]
    if math.prod(form["shape"]) == 0:
        return torch.empty(form["shape"], dtype=dtype, device=raw.device)
    return raw.view(dtype).as_strided(form["shape"], form["stride"])


def view(pointer: int, form: dict[str, Any]) -> torch.Tensor:
    """Return the tensor that `Arena` described by `form`, over a buffer that this process opened at `pointer`.

    If the form has `room` [bytes], the tensor is a view whose storage begins that many bytes earlier.
    """
    nbytes, room = math.prod(form["shape"]) * DTYPES[form["dtype"]].itemsize, form.get("room", 0)
    return shaped(raw_bytes(pointer + form.get("offset", 0) - room, nbytes + room)[room:], form)
