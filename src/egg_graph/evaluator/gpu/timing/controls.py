"""Look for a disagreement of the clocks on what hides nothing: the baseline, and a null kernel.

A busy host, bursts of gigabytes and a GPU that lowers its clocks tell on every forward. Both controls are measured when
the candidate's process is gone, for what it left running would excuse it.

The null kernel runs in a process that never loads a candidate. It takes as long as the candidate does by CUDA events,
and does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from egg_graph.evaluator.gpu.timing.agreement import Burst, Excess, device_clock, event_clock, host_clock, tell
from egg_graph.evaluator.gpu.timing.baseline import PyTorchBaseline
from egg_graph.evaluator.gpu.timing.bursts import (
    EMPTY_SPIN_MS,
    LONGEST_BURST_MS,
    UNCOUNTED_BURSTS,
    count_bursts,
    open_blank,
    run_burst_of_blank,
)
from egg_graph.evaluator.gpu.timing.samples import PairedSamples
from egg_graph.evaluator.gpu.timing.session import TimingSession
from egg_graph.evaluator.gpu.timing.statistics import median
from egg_graph.evaluator.gpu.worker_session import WorkerSession
from egg_graph.schema import Clock

CALLS = 12
"""Recorded calls of each control, about."""

Clocks = tuple[Clock, Clock, Clock]
"""CUDA events, the GPU's own counter, and the judge's clock."""


@dataclass(frozen=True)
class Controls:
    """The three clocks on the baseline and on the null kernel."""

    baseline: Clocks
    null: Clocks

    def harmless(self, event_ms: float) -> Excess:
        """Return what the clocks may exceed events by on a forward that takes `event_ms` by events [ms].

        The null kernel takes as long as that forward. The baseline may take longer: then no more than its share counts.
        """
        share = min(1.0, event_ms / self.baseline[0].milliseconds) if self.baseline[0].milliseconds else 0.0
        device, host = (
            max(0.0, _excess(self.null, number), share * _excess(self.baseline, number)) for number in (1, 2)
        )
        return Excess(device, host)

    @property
    def statement(self) -> str:
        """All clocks in words."""
        return f"baseline: {tell(self.baseline)}; null kernel: {tell(self.null)}"


def _excess(clocks: Clocks, number: int) -> float:
    return clocks[number].milliseconds - clocks[0].milliseconds


def measure_controls(
    session: TimingSession, worker: WorkerSession, samples: PairedSamples, burst_calls: int
) -> Controls:
    """Measure both controls, in bursts of as many calls as the candidate's.

    Args:
        session: the buffers; their sets of inputs are used again.
        worker: of the candidate; it has ended, and starts processes of the same kind.
        samples: recorded calls of both sides.
        burst_calls: number of calls of one burst.
    """
    blank = open_blank(session, worker)
    try:
        null = _null_clocks(session, blank, int(1e6 * median(samples.candidate_ms)), burst_calls)
    finally:
        blank.close()
    return Controls(_baseline_clocks(session, median(samples.baseline_ms), burst_calls), null)


def _null_clocks(session: TimingSession, blank: WorkerSession, null_ns: int, burst_calls: int) -> Clocks:
    """Read the clocks on a null kernel that takes `null_ns` [ns], in a process that never loaded a candidate."""
    number = session.warmup_calls
    event_ms, stamps = [], []
    for call in range(UNCOUNTED_BURSTS + CALLS):
        answer = session.call_candidate(blank, number, first=not call, null_ns=null_ns)
        before, after = session.timestamps[number].tolist()
        event_ms.append(float(answer["event_ms"]))
        stamps.append((before, after))
    numbers, spin_ns = range(number, number + burst_calls), int(1e6 * EMPTY_SPIN_MS)
    host = _host_clock(
        count_bursts(burst_calls * null_ns / 1e6),
        lambda with_null: run_burst_of_blank(
            session, blank, numbers, spin_ns=spin_ns, null_ns=null_ns if with_null else 0
        ),
    )
    return (*read_device(session.baseline, event_ms[UNCOUNTED_BURSTS:], stamps[UNCOUNTED_BURSTS:]), host)


def _baseline_clocks(session: TimingSession, milliseconds: float, burst_calls: int) -> Clocks:
    """Read the clocks on the baseline, which takes so long by events [ms]."""
    event_ms, stamps = [], []
    block = range(session.warmup_calls + session.block_calls)
    for _ in range(-(-CALLS // session.block_calls)):
        event_ms += [call.event_ms for call in session.call_baseline(block)][session.warmup_calls :]
        stamps += [(before, after) for before, after in session.baseline_timestamps.tolist()[: len(block)]][
            session.warmup_calls :
        ]
    calls = max(1, min(burst_calls, int(LONGEST_BURST_MS / milliseconds)))
    queue_ms = session.baseline.latencies[session.baseline.best].queue_ms
    spin_ns = int(1e6 * min(2.0 * calls * queue_ms + 1.0, 2 * LONGEST_BURST_MS))
    numbers = range(session.warmup_calls, session.warmup_calls + calls)

    def burst(forward: bool) -> Burst:
        session.call_baseline(range(session.warmup_calls))
        return session.run_baseline_burst(numbers, spin_ns=spin_ns, forward=forward)

    return (*read_device(session.baseline, event_ms, stamps), _host_clock(count_bursts(calls * milliseconds), burst))


def _host_clock(count: int, burst: Callable[[bool], Burst]) -> Clock:
    """Read the judge's clock by bursts with forwards and without, in turns."""
    pairs = [(burst(True), burst(False)) for _ in range(UNCOUNTED_BURSTS + count)][UNCOUNTED_BURSTS:]
    return host_clock([more for more, _ in pairs], [less for _, less in pairs])


def read_device(
    baseline: PyTorchBaseline, event_ms: Sequence[float], stamps: Sequence[tuple[int, int]]
) -> tuple[Clock, Clock]:
    """Return the time by CUDA events and by the GPU's own counter, from recorded calls [ms, ns]."""
    return event_clock(event_ms), device_clock(stamps, baseline.empty_ms, baseline.resolution_ns)
