"""Three clocks on one forward, and what it means when they disagree.

events   CUDA events in the candidate's process.
device   the GPU's own nanosecond counter, written to the judge's memory before and after the forward.
host     the judge's wall clock on a burst of calls, less the same burst without forwards in a process that never saw
         the candidate. Work that hides from the other two still has to be done before the burst is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from egg_graph.evaluator.gpu.timing.statistics import median
from egg_graph.schema import Clock

RELATIVE, ABSOLUTE = 0.10, 0.003
"""Difference of two clocks that still is agreement: a tenth, and 3 us [ms]."""
FLATTERS_RELATIVE, FLATTERS_ABSOLUTE = 0.25, 0.010
"""Difference from the largest clock that invalidates, if both are exceeded: a quarter, and 10 us [ms]."""
SYNCHRONISING = 0.05
"""Milliseconds per call that a host may take which has to wait for the GPU within each forward."""
FETCHING, FETCHING_PART = 0.0015, 0.6
"""Milliseconds per launch by which a long queue is slower than a short one (1 us seen on an H200), and the largest
part of a forward's time that is believed to be that."""


@dataclass(frozen=True)
class Burst:
    """One burst by the judge's clock."""

    calls: int
    wall_ms: float
    """From sending the command until the GPU was done, less the spin."""
    queued_ms: float
    """Until all was queued, less the spin: negative where the queue was ahead of the GPU."""

    @property
    def host_bound(self) -> bool:
        return self.queued_ms > 0


@dataclass(frozen=True)
class Agreement:
    """The three clocks side by side."""

    clocks: tuple[Clock, ...]
    agrees: bool
    flatters: bool
    """The clock by which the candidate is paid is far below another one."""
    largest_ms: float
    words: str


def host_clock(with_forward: Sequence[Burst], without: Sequence[Burst]) -> Clock:
    """Milliseconds that one forward adds to a burst; all bursts have the same number of calls."""
    calls = with_forward[0].calls
    more, less = ([burst.wall_ms for burst in bursts] for bursts in (with_forward, without))
    noise = (_spread(more) + _spread(less)) / calls
    return Clock(name="host", milliseconds=max(0.0, (median(more) - median(less)) / calls), noise_ms=noise)


def device_clock(stamps: Sequence[tuple[int, int]], empty_ms: float, resolution_ns: float) -> Clock:
    """Median time between two stamps, less what lies between them without a forward."""
    times = [(after - before) / 1e6 - empty_ms for before, after in stamps]
    return Clock(name="device", milliseconds=max(0.0, median(times)), noise_ms=max(_spread(times), resolution_ns / 1e6))


def event_clock(milliseconds: Sequence[float]) -> Clock:
    return Clock(name="events", milliseconds=median(milliseconds), noise_ms=_spread(milliseconds))


def agreement(
    events: Clock, device: Clock, host: Clock | None, *, launches: int = 1, waits_ms: float | None = None
) -> Agreement:
    """Whether the clocks tell the same.

    Args:
        events, device, host: medians [ms]; `host` is None where it was not measured.
        launches: of one forward. Where dozens of short kernels are queued ahead, the GPU takes longer to fetch each
            than where one forward's are, so the host's clock tells more than the others though nobody hides anything.
        waits_ms: None where forwards were queued ahead of the GPU; else what the judge's own part of queueing takes
            per call, which a forward that waits for the GPU adds to every clock but events. Such a forward is not
            accused of it, but the largest clock counts.
    """
    clocks = tuple(clock for clock in (events, device, host) if clock is not None)
    paid = events.milliseconds
    close = RELATIVE * paid + ABSOLUTE
    fetching = min(FETCHING * launches, FETCHING_PART * paid)
    excess = device.milliseconds - paid
    agrees = abs(excess) <= close + device.noise_ms
    if host is not None:
        over = host.milliseconds - 3 * host.noise_ms - fetching - paid
        agrees = agrees and over <= close
        excess = max(excess, over)
    excused = 0.0 if waits_ms is None else 1.5 * waits_ms + SYNCHRONISING
    return Agreement(
        clocks,
        agrees,
        flatters=not agrees and excess - excused > max(FLATTERS_RELATIVE * paid, FLATTERS_ABSOLUTE),
        largest_ms=max(clock.milliseconds for clock in clocks),
        words=", ".join(f"{clock.name} {clock.milliseconds:.4g} ms" for clock in clocks),
    )


def _spread(values: Sequence[float]) -> float:
    """Half of the interquartile range."""
    low, high = np.quantile(np.asarray(values, float), (0.25, 0.75))
    return float(high - low) / 2
