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

from egg_graph.evaluator.timing import median
from egg_graph.schema import Clock

RELATIVE, ABSOLUTE = 0.10, 0.003
"""Difference of two clocks that still is agreement: a tenth, and 3 us [ms]."""
FLATTERS_RELATIVE, FLATTERS_ABSOLUTE = 0.25, 0.010
"""Difference from the largest clock that invalidates, if both are exceeded: a quarter, and 10 us [ms]."""
SYNCHRONISING = 0.05
"""Milliseconds per call that a host may take which has to wait for the GPU within each forward."""


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


def agreement(events: Clock, device: Clock, host: Clock | None, *, host_bound_ms: float | None = None) -> Agreement:
    """Whether the clocks tell the same.

    Args:
        events, device, host: medians [ms]; `host` is None where it was not measured.
        host_bound_ms: None where the bursts were queued ahead of the GPU; else the milliseconds that the judge's own
            part of queueing takes per call, which a host that waits for the GPU adds to every forward.
    """
    clocks = tuple(clock for clock in (events, device, host) if clock is not None)
    paid = events.milliseconds
    close = RELATIVE * paid + ABSOLUTE
    agrees = abs(device.milliseconds - paid) <= close + device.noise_ms
    excess = device.milliseconds - paid
    if host is not None:
        slack = 0.0 if host_bound_ms is None else 1.5 * host_bound_ms + SYNCHRONISING
        over = host.milliseconds - slack - 3 * host.noise_ms - paid
        agrees = agrees and over <= close
        excess = max(excess, over)
    return Agreement(
        clocks,
        agrees,
        flatters=not agrees and excess > max(FLATTERS_RELATIVE * paid, FLATTERS_ABSOLUTE),
        largest_ms=max(clock.milliseconds for clock in clocks),
        words=", ".join(f"{clock.name} {clock.milliseconds:.4g} ms" for clock in clocks),
    )


def _spread(values: Sequence[float]) -> float:
    """Half of the interquartile range."""
    low, high = np.quantile(np.asarray(values, float), (0.25, 0.75))
    return float(high - low) / 2
