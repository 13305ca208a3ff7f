"""Time single calls on the default GPU stream. Candidate and baseline use this same code, each in its own process.

Every call is queued in one order, whether its time is recorded or not:

    spin | decrypt the inputs | flush the L2 cache | timestamp, event | forward | event, timestamp | copy the answer

The spin keeps the GPU busy until the host has queued the whole forward. Without it, a forward that takes longer to
queue than the flush takes to run (about 70 us) would be timed by the host's speed. The copy follows in stream order, so
work that a forward leaves to a thread, or to a stream that nobody waits for, comes too late for the copy.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch

from egg_graph.evaluator.device.driver import StreamDriver
from egg_graph.evaluator.garbage_collection import garbage_collection_off

WARMUP_CALLS = 2
"""Calls at the head of each block that are not recorded. The GPU has just switched from the other process, and its
address translation, instruction cache and allocator are cold."""
SHORTEST_SPIN_MS, LONGEST_SPIN_MS = 0.25, 20.0
"""Bounds of the spin [ms]. The upper one is for forwards that wait for the GPU: they cannot be queued ahead."""
TIMESTAMP_BYTES = 16
"""Size of the two timestamps of one call [bytes]: 64-bit integers before and after the forward."""


@dataclass(frozen=True)
class HostLatency:
    """How long a warm forward takes by the host's clock (medians)."""

    queue_ms: float
    """Time until the forward returns [ms]: queueing alone, unless the forward waits for the GPU."""
    wall_ms: float
    """Time until the GPU has finished as well [ms]."""

    @property
    def spin_ns(self) -> int:
        """Spin before a call of this forward [ns]."""
        return spin_ns_for(self.queue_ms)


def spin_ns_for(queue_ms: float) -> int:
    """Return the spin [ns] for a forward that takes `queue_ms` [ms] to queue: three times as long, within bounds.

    The factor keeps a slow moment of the host out of the measurement.
    """
    return int(1e6 * min(max(SHORTEST_SPIN_MS, 3 * queue_ms), LONGEST_SPIN_MS))


@dataclass(frozen=True)
class DeviceBuffer:
    """Device memory by its address in this process."""

    pointer: int
    """Device address."""
    nbytes: int
    """Size [bytes]."""

    @classmethod
    def of(cls, tensor: torch.Tensor) -> DeviceBuffer:
        """Return the memory of a dense tensor."""
        return cls(tensor.data_ptr(), tensor.numel() * tensor.element_size())


@dataclass(frozen=True)
class EncryptedInputs:
    """Inputs of one call, which nobody can read without the key."""

    source: DeviceBuffer
    """Where the encrypted inputs lie."""
    target: DeviceBuffer
    """Where the forward finds them decrypted."""
    key: int
    """64-bit key."""


@dataclass(frozen=True)
class CallTime:
    """What one timed call took."""

    event_ms: float
    """Time between the two CUDA events [ms]."""
    queue_ms: float
    """Time until the forward returned, by the host's clock [ms]."""


@dataclass
class StreamTimer:
    """Times calls in this process.

    Args:
        driver: the GPU.
        flush: memory larger than the L2 cache; every call overwrites it before its forward.
    """

    driver: StreamDriver
    flush: DeviceBuffer

    def time_call(
        self,
        forward: Callable[[], Any],
        *,
        inputs: EncryptedInputs | None,
        spin_ns: int,
        flush_value: int,
        timestamps: int,
        deliver: Callable[[Any], None],
    ) -> CallTime:
        """Time one call. The device is idle before and after.

        Args:
            forward: queues the work on the current stream.
            inputs: are decrypted before the forward; None if the forward's inputs are in place already.
            spin_ns: duration of the spin that comes before everything else [ns].
            flush_value: 32-bit value that the flush writes.
            timestamps: address of `TIMESTAMP_BYTES` of memory; 0 writes no timestamps.
            deliver: queues copies of the result.
        """
        with garbage_collection_off():
            driver = self.driver
            driver.spin(spin_ns)
            self.queue_preparation(inputs, flush_value)
            if timestamps:
                driver.write_timestamp(timestamps)
            driver.record_event(0)
            began = time.perf_counter()
            result = forward()
            queue_seconds = time.perf_counter() - began
            driver.record_event(1)
            if timestamps:
                driver.write_timestamp(timestamps + 8)
            deliver(result)
            driver.synchronize()
            return CallTime(driver.elapsed_ms(), 1e3 * queue_seconds)

    def time_calls(self, forward: Callable[[], Any], *, calls: int, warmup_calls: int, spin_ns: int) -> list[float]:
        """Time `calls` calls on the same inputs, after unrecorded ones; returns the event time of each [ms]."""
        times = [
            self.time_call(
                forward, inputs=None, spin_ns=spin_ns, flush_value=0, timestamps=0, deliver=lambda result: None
            )
            for _ in range(warmup_calls + calls)
        ]
        return [call.event_ms for call in times[warmup_calls:]]

    def queue_preparation(self, inputs: EncryptedInputs | None, flush_value: int) -> None:
        """Queue what precedes every forward: decrypt its inputs, and flush them from the L2 cache."""
        if inputs is not None:
            self.driver.xor_keystream(inputs.source.pointer, inputs.target.pointer, inputs.source.nbytes, inputs.key)
        self.driver.fill(self.flush.pointer, self.flush.nbytes, flush_value)


def measure_host_latency(forward: Callable[[], Any], seconds: float) -> HostLatency:
    """Warm a forward up for `seconds` (at least three calls) and measure its latency by the host's clock.

    The first calls load modules, run autotuners and raise the GPU's clocks.
    """
    started = time.monotonic()
    queue_ms: list[float] = []
    wall_ms: list[float] = []
    while len(wall_ms) < 3 or (time.monotonic() - started < seconds and len(wall_ms) < 1000):
        began = time.perf_counter()
        result = forward()
        queued = time.perf_counter()
        torch.cuda.synchronize()
        queue_ms.append(1e3 * (queued - began))
        wall_ms.append(1e3 * (time.perf_counter() - began))
        del result
    return HostLatency(median(queue_ms[2:]), median(wall_ms[2:]))


def flush_bytes() -> int:
    """Return how much memory a flush overwrites [bytes]: twice the L2 cache, at least 256 MiB."""
    return max(2 * torch.cuda.get_device_properties(0).L2_cache_size, 256 << 20)
