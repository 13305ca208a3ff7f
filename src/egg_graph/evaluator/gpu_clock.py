"""Timing of calls on one GPU stream: the same code for candidate and baseline, each in its own process.

A block is a few calls in a row in one process. Every call of it goes the same way: the L2 cache is flushed, a spinning
kernel keeps the GPU busy until the host has queued the whole forward, then start event, forward, end event, and the
device is left idle. The spin matters: without it a forward whose launching takes longer than the flush (some 50 us) is
timed by the host's speed of that moment. The first calls of a block are not recorded: the GPU has just switched from
the other process, and address translation, instruction cache and allocator are cold.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from egg_graph.evaluator.timing import median

LEAD = 2
"""Calls at the head of each block that are not recorded."""
CYCLES_PER_MS = 2_000_000
"""Of the spinning kernel, at about 2 GHz."""
SHORTEST_SPIN, LONGEST_SPIN = 0.25, 20.0
"""Milliseconds. A forward that waits for the GPU cannot be queued ahead, and the spin cannot be endless."""


@dataclass(frozen=True)
class Pace:
    """How a warm forward runs by the host's clock [ms]."""

    host_ms: float
    """Until the forward has returned: queueing alone, unless it waits for the GPU."""
    wall_ms: float
    """Until the GPU has finished, too."""

    @property
    def spin_cycles(self) -> int:
        """Three times what queueing takes, so that a slow moment of the host does not show."""
        return int(CYCLES_PER_MS * min(max(SHORTEST_SPIN, 3 * self.host_ms), LONGEST_SPIN))


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


def time_block(
    forward: Callable[[], Any],
    flush: torch.Tensor,
    *,
    calls: int,
    spin_cycles: int,
    lead: int = LEAD,
    take: Callable[[int, Any], None] | None = None,
) -> list[float]:
    """Milliseconds of each of `calls` calls by device events, after `lead` unrecorded ones.

    Args:
        forward: queues the work on the current stream.
        flush: overwritten before every call; larger than the L2 cache.
        calls: how many are recorded.
        spin_cycles: of the GPU's clock, before each call.
        lead: unrecorded calls before them.
        take: gets the number of a recorded call and its result, once the device is idle.
    """
    milliseconds: list[float] = []
    collecting = gc.isenabled()
    gc.disable()  # a collection in the middle of a forward costs more than most kernels
    try:
        for number in range(-lead, calls):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            flush.zero_()
            torch.cuda._sleep(spin_cycles)
            start.record()
            result = forward()
            end.record()
            torch.cuda.synchronize()
            if number >= 0:
                milliseconds.append(start.elapsed_time(end))
                if take is not None:
                    take(number, result)
                    torch.cuda.synchronize()
            del result
    finally:
        if collecting:
            gc.enable()
    return milliseconds


def flush_bytes() -> int:
    """Twice the L2 cache, at least 256 MB: what is written between two timed calls."""
    return max(2 * torch.cuda.get_device_properties(0).L2_cache_size, 256 << 20)
