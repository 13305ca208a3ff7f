"""Timing of single calls on one GPU stream: the same code for candidate and baseline, each in its own process.

Every call goes the same way, whether it is recorded or not: a spinning kernel keeps the GPU busy until the host has
queued the whole forward; the inputs are unsealed; the L2 cache is flushed; then the marks, the forward between them,
and a copy of its answer at once, in stream order. The spin matters: without it a forward whose launching takes longer
than the flush (some 70 us) is timed by the host's speed of that moment. Work that a forward leaves to a thread, or to
a stream that nobody waits for, comes too late for the copy.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch

from egg_graph.evaluator.device.driver import Gpu

LEAD = 2
"""Calls at the head of each block that are not recorded: the GPU has just switched from the other process, and address
translation, instruction cache and allocator are cold."""
SHORTEST_SPIN, LONGEST_SPIN = 0.25, 20.0
"""Milliseconds. A forward that waits for the GPU cannot be queued ahead, and the spin cannot be endless."""
STAMP_BYTES = 16
"""Two stamps of the GPU's clock, before and after a forward."""


@dataclass(frozen=True)
class Pace:
    """How a warm forward runs by the host's clock [ms]."""

    host_ms: float
    """Until the forward has returned: queueing alone, unless it waits for the GPU."""
    wall_ms: float
    """Until the GPU has finished, too."""

    @property
    def spin_ns(self) -> int:
        """Three times what queueing takes, so that a slow moment of the host does not show."""
        return spin_for(self.host_ms)


def spin_for(queued_ms: float) -> int:
    """Nanoseconds of spin for a forward that takes so long to queue."""
    return int(1e6 * min(max(SHORTEST_SPIN, 3 * queued_ms), LONGEST_SPIN))


@dataclass(frozen=True)
class Place:
    """Device memory by its address in this process."""

    pointer: int
    nbytes: int


@dataclass(frozen=True)
class Sealed:
    """Inputs of one call, not readable without the key."""

    source: Place
    into: Place
    key: int


@dataclass(frozen=True)
class Reading:
    """One call."""

    milliseconds: float
    """Between the marks, by CUDA events."""
    queued_ms: float
    """Until the forward returned, by the host's clock."""


@dataclass
class Clock:
    """Times calls in this process."""

    gpu: Gpu
    flush: Place
    """Overwritten before every call; larger than the L2 cache."""

    def once(
        self,
        forward: Callable[[], Any],
        *,
        sealed: Sealed | None,
        spin_ns: int,
        filling: int,
        stamps: int,
        deliver: Callable[[Any], None],
    ) -> Reading:
        """One call; the device is idle before and after.

        Args:
            forward: queues the work on the current stream.
            sealed: its inputs; None where they are there already.
            spin_ns: before anything else.
            filling: 32-bit value that the flush writes.
            stamps: address of `STAMP_BYTES`; 0 for none.
            deliver: queues copies of the result.
        """
        with no_collection():
            gpu = self.gpu
            gpu.spin(spin_ns)
            self.prepare(sealed, filling)
            if stamps:
                gpu.stamp(stamps)
            gpu.mark(0)
            began = time.perf_counter()
            result = forward()
            queued = time.perf_counter() - began
            gpu.mark(1)
            if stamps:
                gpu.stamp(stamps + 8)
            deliver(result)
            gpu.wait()
            return Reading(gpu.between(), 1e3 * queued)

    def series(self, forward: Callable[[], Any], *, calls: int, lead: int, spin_ns: int) -> list[float]:
        """Milliseconds of each of `calls` calls on the same inputs, after `lead` unrecorded ones."""
        readings = [
            self.once(forward, sealed=None, spin_ns=spin_ns, filling=0, stamps=0, deliver=lambda result: None)
            for _ in range(lead + calls)
        ]
        return [reading.milliseconds for reading in readings[lead:]]

    def prepare(self, sealed: Sealed | None, filling: int) -> None:
        """Queue what precedes every forward: its inputs, and a cache that holds none of them."""
        if sealed is not None:
            self.gpu.unseal(sealed.source.pointer, sealed.into.pointer, sealed.source.nbytes, sealed.key)
        self.gpu.fill(self.flush.pointer, self.flush.nbytes, filling)


@contextmanager
def no_collection() -> Iterator[None]:
    """A collection in the middle of a forward costs more than most kernels."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def find_pace(forward: Callable[[], Any], seconds: float) -> Pace:
    """Forwards until `seconds` are over (at least three): module load, autotuning, clocks; and their pace."""
    started = time.monotonic()
    host: list[float] = []
    wall: list[float] = []
    while len(wall) < 3 or (time.monotonic() - started < seconds and len(wall) < 1000):
        began = time.perf_counter()
        result = forward()
        queued = time.perf_counter()
        torch.cuda.synchronize()
        host.append(1e3 * (queued - began))
        wall.append(1e3 * (time.perf_counter() - began))
        del result
    return Pace(median(host[2:]), median(wall[2:]))


def flush_bytes() -> int:
    """Twice the L2 cache, at least 256 MB: what is written between two timed calls."""
    return max(2 * torch.cuda.get_device_properties(0).L2_cache_size, 256 << 20)
