"""The CUDA driver API on the default stream: spin, decrypt, flush, timestamp, event, copy, synchronize.

PyTorch's events, generators and copies live in the candidate's process, where the candidate may replace them. The
functions here are looked up before the candidate is imported, and they take addresses. No name that a candidate can
assign to lies on their way.
"""

from __future__ import annotations

import ctypes
from typing import Any, Protocol

import torch

from egg_graph.evaluator.device.ptx import PTX

THREADS, BLOCKS = 256, 1056
"""Threads per block and largest grid of the `xor_keystream` kernel, which is a grid-stride loop."""
PERSISTING_L2_CACHE_SIZE = 0x06
"""`CU_LIMIT_PERSISTING_L2_CACHE_SIZE`."""
OUT_OF_MEMORY = 2
"""`CUDA_ERROR_OUT_OF_MEMORY`."""
UNSUPPORTED_LIMIT = 215
"""`CUDA_ERROR_UNSUPPORTED_LIMIT`."""


class StreamDriver(Protocol):
    """What the timing code asks of a GPU, on the default stream.

    Addresses are those of this process. Every method but `synchronize` returns before the GPU has done the work.
    """

    def spin(self, nanoseconds: int) -> None: ...
    def xor_keystream(self, source: int, target: int, nbytes: int, key: int) -> None: ...
    def fill(self, target: int, nbytes: int, value: int) -> None: ...
    def write_timestamp(self, address: int) -> None: ...
    def record_event(self, number: int) -> None: ...
    def elapsed_ms(self) -> float: ...
    def copy(self, target: int, source: int, nbytes: int) -> None: ...
    def synchronize(self) -> None: ...
    def reset_persisting_l2(self) -> None: ...


class CudaDriver:
    """`StreamDriver` on the current CUDA device.

    Raises:
        torch.OutOfMemoryError: if the driver has no memory for a call.
        RuntimeError: if the driver refuses a call for another reason.
    """

    def __init__(self) -> None:
        self._cuda = load_libcuda()
        module = ctypes.c_void_p()
        check_driver(self._cuda.cuModuleLoadData(ctypes.byref(module), PTX.encode() + b"\0"), "cuModuleLoadData")
        names = ("write_timestamp", "spin", "watch_clock", "xor_keystream")
        self._kernels = {name: self._kernel(module, name) for name in names}
        self._launch, self._record = self._cuda.cuLaunchKernel, self._cuda.cuEventRecord
        self._memset, self._copy = self._cuda.cuMemsetD32Async, self._cuda.cuMemcpyDtoDAsync_v2
        self._synchronize, self._elapsed = self._cuda.cuCtxSynchronize, self._cuda.cuEventElapsedTime
        self._events = [self._event(), self._event()]

    def spin(self, nanoseconds: int) -> None:
        """Keep one multiprocessor, and so the stream, busy for this long."""
        self._run("spin", 1, 1, ctypes.c_uint64(nanoseconds))

    def watch_clock(self, address: int, nanoseconds: int) -> None:
        """Read the GPU's clock without pause; write its largest and its smallest step [ns] as two 64-bit integers.

        A large step means that the GPU ran another process in between.
        """
        self._run("watch_clock", 1, 1, ctypes.c_uint64(address), ctypes.c_uint64(nanoseconds))

    def xor_keystream(self, source: int, target: int, nbytes: int, key: int) -> None:
        """XOR `nbytes` (a multiple of 16) with the keystream of a 64-bit key; this encrypts and decrypts alike."""
        if nbytes:
            words = ctypes.c_uint32(key & 0xFFFFFFFF), ctypes.c_uint32(key >> 32)
            blocks = min(BLOCKS, -(-nbytes // (16 * THREADS)))
            pieces = ctypes.c_uint64(source), ctypes.c_uint64(target), ctypes.c_uint64(nbytes // 16)
            self._run("xor_keystream", blocks, THREADS, *pieces, *words)

    def fill(self, target: int, nbytes: int, value: int) -> None:
        """Fill `nbytes` (a multiple of 4) with a 32-bit value."""
        count = ctypes.c_size_t(nbytes // 4)
        check_driver(self._memset(ctypes.c_uint64(target), ctypes.c_uint(value), count, None), "cuMemsetD32Async")

    def write_timestamp(self, address: int) -> None:
        """Write the GPU's own clock [ns] as a 64-bit integer, in stream order."""
        self._run("write_timestamp", 1, 1, ctypes.c_uint64(address))

    def record_event(self, number: int) -> None:
        """Record CUDA event 0 or 1."""
        check_driver(self._record(self._events[number], None), "cuEventRecord")

    def elapsed_ms(self) -> float:
        """Return the time between the two events [ms]; both must have been reached."""
        milliseconds = ctypes.c_float()
        check_driver(self._elapsed(ctypes.byref(milliseconds), *self._events), "cuEventElapsedTime")
        return milliseconds.value

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy device memory to device memory."""
        if nbytes:
            operands = ctypes.c_uint64(target), ctypes.c_uint64(source), ctypes.c_size_t(nbytes)
            check_driver(self._copy(*operands, None), "cuMemcpyDtoDAsync")

    def synchronize(self) -> None:
        """Wait until every stream of this process is idle."""
        check_driver(self._synchronize(), "cuCtxSynchronize")

    def reset_persisting_l2(self) -> None:
        """Return every persisting line of the L2 cache to normal, and allow no new one."""
        check_driver(self._cuda.cuCtxResetPersistingL2Cache(), "cuCtxResetPersistingL2Cache")
        code = self._cuda.cuCtxSetLimit(ctypes.c_int(PERSISTING_L2_CACHE_SIZE), ctypes.c_size_t(0))
        if code != UNSUPPORTED_LIMIT:  # a GPU without this limit has no persisting lines
            check_driver(code, "cuCtxSetLimit")

    def _run(self, name: str, blocks: int, threads: int, *arguments: Any) -> None:
        packed = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(a) for a in arguments))
        code = self._launch(self._kernels[name], blocks, 1, 1, threads, 1, 1, 0, None, packed, None)
        check_driver(code, f"launch of {name}")

    def _kernel(self, module: ctypes.c_void_p, name: str) -> ctypes.c_void_p:
        function = ctypes.c_void_p()
        code = self._cuda.cuModuleGetFunction(ctypes.byref(function), module, name.encode())
        check_driver(code, f"cuModuleGetFunction {name}")
        return function

    def _event(self) -> ctypes.c_void_p:
        event = ctypes.c_void_p()
        check_driver(self._cuda.cuEventCreate(ctypes.byref(event), ctypes.c_uint(0)), "cuEventCreate")
        return event


def load_libcuda() -> ctypes.CDLL:
    """Load the CUDA driver library, with PyTorch's primary context current in this thread."""
    torch.cuda.init()
    torch.cuda.synchronize()  # makes the primary context current in this thread
    return ctypes.CDLL("libcuda.so.1")


def check_driver(code: int, call: str) -> None:
    """Raise what a CUDA driver error code means.

    Args:
        code: result of a driver call; 0 is success.
        call: name of the call, for the message.

    Raises:
        torch.OutOfMemoryError: if the GPU has no more memory.
        RuntimeError: for every other error.
    """
    if code == OUT_OF_MEMORY:
        raise torch.OutOfMemoryError(f"{call}: out of GPU memory")
    if code != 0:
        raise RuntimeError(f"{call}: CUDA driver error {code}")
