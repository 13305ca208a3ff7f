"""What the timing rung itself asks of the GPU, by the driver's interface alone: wait, flush, stamp, mark, copy.

PyTorch's events, generators and copies live in the candidate's process, where it may replace them. The functions here
are looked up before the candidate is imported and work on the default stream by address; no name that a candidate can
assign to lies on their way.
"""

from __future__ import annotations

import ctypes
from typing import Any, Protocol

import torch

from egg_graph.evaluator.device.ptx import PTX

THREADS, BLOCKS = 256, 1056
"""Of the unsealing kernel: a grid-stride loop over all of it."""
PERSISTING_L2_SIZE = 0x06
"""CU_LIMIT_PERSISTING_L2_CACHE_SIZE"""
UNSUPPORTED = 215
"""CUDA_ERROR_UNSUPPORTED_LIMIT"""


class Gpu(Protocol):
    """GPU work on the default stream. Addresses are of this process; nothing waits but `wait`."""

    def spin(self, nanoseconds: int) -> None: ...
    def unseal(self, source: int, target: int, nbytes: int, key: int) -> None: ...
    def fill(self, target: int, nbytes: int, value: int) -> None: ...
    def stamp(self, where: int) -> None: ...
    def mark(self, number: int) -> None: ...
    def between(self) -> float: ...
    def copy(self, target: int, source: int, nbytes: int) -> None: ...
    def wait(self) -> None: ...
    def forget_l2(self) -> None: ...


class BareGpu:
    """`Gpu` on the current device. Raises RuntimeError where the driver refuses."""

    def __init__(self) -> None:
        torch.cuda.init()
        torch.cuda.synchronize()  # makes the primary context current in this thread
        self._cuda = ctypes.CDLL("libcuda.so.1")
        module = ctypes.c_void_p()
        _check(self._cuda.cuModuleLoadData(ctypes.byref(module), PTX.encode() + b"\0"), "cuModuleLoadData")
        self._kernels = {name: self._kernel(module, name) for name in ("stamp", "spin", "watch", "unseal")}
        self._launch, self._record = self._cuda.cuLaunchKernel, self._cuda.cuEventRecord
        self._memset, self._copy = self._cuda.cuMemsetD32Async, self._cuda.cuMemcpyDtoDAsync_v2
        self._synchronize, self._elapsed = self._cuda.cuCtxSynchronize, self._cuda.cuEventElapsedTime
        self._events = [self._event(), self._event()]

    def spin(self, nanoseconds: int) -> None:
        """Keep one multiprocessor, and with it the stream, busy for so long."""
        self._run("spin", 1, 1, ctypes.c_uint64(nanoseconds))

    def watch(self, where: int, nanoseconds: int) -> None:
        """Write two 64-bit integers: the largest and the smallest step of the GPU's clock seen meanwhile [ns].

        Work of other processes shows as a large step: the GPU was taken away.
        """
        self._run("watch", 1, 1, ctypes.c_uint64(where), ctypes.c_uint64(nanoseconds))

    def unseal(self, source: int, target: int, nbytes: int, key: int) -> None:
        """XOR `nbytes` (a multiple of 16) with the stream of a 64-bit key; sealing is the same."""
        if nbytes:
            words = ctypes.c_uint32(key & 0xFFFFFFFF), ctypes.c_uint32(key >> 32)
            blocks = min(BLOCKS, -(-nbytes // (16 * THREADS)))
            places = ctypes.c_uint64(source), ctypes.c_uint64(target), ctypes.c_uint64(nbytes // 16)
            self._run("unseal", blocks, THREADS, *places, *words)

    def fill(self, target: int, nbytes: int, value: int) -> None:
        """`nbytes` (a multiple of 4) of a 32-bit value."""
        count = ctypes.c_size_t(nbytes // 4)
        _check(self._memset(ctypes.c_uint64(target), ctypes.c_uint(value), count, None), "cuMemsetD32Async")

    def stamp(self, where: int) -> None:
        """The GPU's own clock at that point of the stream [ns], as a 64-bit integer."""
        self._run("stamp", 1, 1, ctypes.c_uint64(where))

    def mark(self, number: int) -> None:
        """Record event 0 or 1."""
        _check(self._record(self._events[number], None), "cuEventRecord")

    def between(self) -> float:
        """Milliseconds between the two events, once the device is idle."""
        milliseconds = ctypes.c_float()
        _check(self._elapsed(ctypes.byref(milliseconds), *self._events), "cuEventElapsedTime")
        return milliseconds.value

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Device memory to device memory."""
        if nbytes:
            where = ctypes.c_uint64(target), ctypes.c_uint64(source), ctypes.c_size_t(nbytes)
            _check(self._copy(*where, None), "cuMemcpyDtoDAsync")

    def wait(self) -> None:
        """Until every stream of this process is idle."""
        _check(self._synchronize(), "cuCtxSynchronize")

    def forget_l2(self) -> None:
        """No line stays in the L2 cache by request, and none may."""
        _check(self._cuda.cuCtxResetPersistingL2Cache(), "cuCtxResetPersistingL2Cache")
        code = self._cuda.cuCtxSetLimit(ctypes.c_int(PERSISTING_L2_SIZE), ctypes.c_size_t(0))
        if code != UNSUPPORTED:  # then there is nothing to take back either
            _check(code, "cuCtxSetLimit")

    def _run(self, name: str, blocks: int, threads: int, *arguments: Any) -> None:
        packed = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(a) for a in arguments))
        code = self._launch(self._kernels[name], blocks, 1, 1, threads, 1, 1, 0, None, packed, None)
        _check(code, f"launch of {name}")

    def _kernel(self, module: ctypes.c_void_p, name: str) -> ctypes.c_void_p:
        function = ctypes.c_void_p()
        code = self._cuda.cuModuleGetFunction(ctypes.byref(function), module, name.encode())
        _check(code, f"cuModuleGetFunction {name}")
        return function

    def _event(self) -> ctypes.c_void_p:
        event = ctypes.c_void_p()
        _check(self._cuda.cuEventCreate(ctypes.byref(event), ctypes.c_uint(0)), "cuEventCreate")
        return event


def _check(code: int, what: str) -> None:
    if code == 2:
        raise torch.OutOfMemoryError(f"{what}: out of GPU memory")
    if code != 0:
        raise RuntimeError(f"{what}: CUDA driver error {code}")
