"""Compare three clocks on one forward, and decide what their disagreement means.

events   CUDA events in the candidate's process.
device   the GPU's own nanosecond counter, written to the judge's memory before and after the forward.
host     the judge's wall clock on a burst of calls, minus the same burst without forwards in a process that never
         loaded the candidate. Work that hides from the other two clocks must still be done before the burst is over.

The ratio is formed within one clock on both sides: CUDA events, which tell device time. The other two guard against
work that is hidden from it. What they exceed it by on the baseline and on a null kernel as well (`controls`), hides
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from egg_graph.evaluator.gpu.timing.statistics import lower_spread, median, spread
from egg_graph.schema import Clock

AGREES_RELATIVE, AGREES_MS = 0.10, 0.003
"""Two clocks agree within a tenth plus 3 us."""
UNDERSTATES_RELATIVE, UNDERSTATES_MS = 0.25, 0.010
"""CUDA events understate the time if another clock exceeds them by both a quarter and 10 us. This invalidates."""
SYNCHRONISING_MS = 0.05
"""Host time per call that is allowed to a forward which waits for the GPU [ms]."""
FETCH_MS, LARGEST_FETCH_PART = 0.0015, 0.6
"""Time per launch by which a long queue may be slower than a short one [ms] (an H200 shows 1 us), and the largest part
of a forward's time that may be explained by it."""


@dataclass(frozen=True)
class Burst:
    """One burst of calls, by the judge's clock."""

    calls: int
    wall_ms: float
    """Time from sending the command until the GPU was done, minus the spin [ms]."""
    queue_ms: float
    """Time until all calls were queued, minus the spin [ms]. It is negative if the host was ahead of the GPU."""

    @property
    def host_bound(self) -> bool:
        """Whether the GPU had to wait for the host."""
        return self.queue_ms > 0


@dataclass(frozen=True)
class Excess:
    """By how much clocks exceed CUDA events on what hides nothing [ms]."""

    device_ms: float = 0.0
    host_ms: float = 0.0


NO_EXCESS = Excess()


@dataclass(frozen=True)
class Agreement:
    """The three clocks side by side."""

    clocks: tuple[Clock, ...]
    agrees: bool
    """Whether the clocks agree."""
    understates: bool
    """Whether CUDA events, which give the candidate's time, are far below another clock."""
    counts: Clock
    """The clock within which the ratio is formed: CUDA events, or the largest clock where they disagree."""
    statement: str
    """Name and time of every clock."""


def host_clock(with_forward: Sequence[Burst], without: Sequence[Burst]) -> Clock:
    """Return the time that one forward adds to a burst [ms]; all bursts have the same number of calls.

    A busy host only ever adds to a burst, and no work can be left out of one, so the shortest bursts count. The noise
    is how far a quarter of the bursts reach above them.
    """
    calls = with_forward[0].calls
    more, less = ([burst.wall_ms for burst in bursts] for bursts in (with_forward, without))
    noise = (lower_spread(more) + lower_spread(less)) / calls
    return Clock(name="host", milliseconds=max(0.0, (min(more) - min(less)) / calls), noise_ms=noise)


def device_clock(timestamps: Sequence[tuple[int, int]], empty_ms: float, resolution_ns: float) -> Clock:
    """Return the median time between two timestamps [ms].

    Args:
        timestamps: before and after each call, by the GPU's clock [ns].
        empty_ms: time between two timestamps without a forward [ms], which is subtracted.
        resolution_ns: smallest step of the GPU's clock [ns].
    """
    times = [(after - before) / 1e6 - empty_ms for before, after in timestamps]
    return Clock(name="device", milliseconds=max(0.0, median(times)), noise_ms=max(spread(times), resolution_ns / 1e6))


def event_clock(event_ms: Sequence[float]) -> Clock:
    """Return the median time between CUDA events [ms]."""
    return Clock(name="events", milliseconds=median(event_ms), noise_ms=spread(event_ms))


def compare_clocks(
    events: Clock,
    device: Clock,
    host: Clock | None,
    *,
    launches: int = 1,
    waits_ms: float | None = None,
    burst_calls: int = 2,
    harmless: Excess = NO_EXCESS,
) -> Agreement:
    """Decide whether the clocks agree.

    Args:
        events: CUDA events.
        device: the GPU's own counter.
        host: the judge's clock; None if it was not measured.
        launches: number of launches of one forward. If many short kernels are queued ahead, the GPU takes longer to
            fetch each of them. The host's clock is then larger than the others though nobody hides anything.
        waits_ms: None if forwards were queued ahead of the GPU. Otherwise the time per call that the judge's own part
            of queueing takes [ms]. A forward that waits for the GPU adds it to every clock but events. It is not
            accused of that, but the largest clock counts, on both sides.
        burst_calls: number of calls of one burst. Of a single call (a long forward, or inputs of gigabytes) the host's
            clock also tells what a burst costs once. Nobody is accused of that, but the largest clock counts, on both
            sides.
        harmless: what the clocks exceed events by on the baseline and on a null kernel.
    """
    clocks = tuple(clock for clock in (events, device, host) if clock is not None)
    event_ms = events.milliseconds
    tolerance_ms = AGREES_RELATIVE * event_ms + AGREES_MS
    fetch_ms = min(FETCH_MS * launches, LARGEST_FETCH_PART * event_ms)
    excess_ms = device.milliseconds - event_ms - harmless.device_ms
    agrees = -tolerance_ms <= device.milliseconds - event_ms + device.noise_ms
    agrees = agrees and excess_ms <= tolerance_ms + device.noise_ms
    if host is not None:
        host_excess_ms = host.milliseconds - 3 * host.noise_ms - fetch_ms - event_ms - harmless.host_ms
        agrees = agrees and host_excess_ms <= tolerance_ms
        excess_ms = max(excess_ms, host_excess_ms) if burst_calls > 1 else excess_ms
    excused_ms = 0.0 if waits_ms is None else 1.5 * waits_ms + SYNCHRONISING_MS
    return Agreement(
        clocks,
        agrees,
        understates=not agrees and excess_ms - excused_ms > max(UNDERSTATES_RELATIVE * event_ms, UNDERSTATES_MS),
        counts=events if agrees else max(clocks, key=lambda clock: clock.milliseconds),
        statement=tell(clocks),
    )


def tell(clocks: Sequence[Clock]) -> str:
    """Return name and time of every clock, in words."""
    return ", ".join(f"{clock.name} {clock.milliseconds:.4g} ms" for clock in clocks)
