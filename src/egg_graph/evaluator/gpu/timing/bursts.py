"""Measure bursts of calls by the judge's own clock, with forwards and without."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from egg_graph.evaluator.gpu.timing.agreement import Burst
from egg_graph.evaluator.gpu.timing.samples import PairedSamples
from egg_graph.evaluator.gpu.timing.session import TimingSession
from egg_graph.evaluator.gpu.timing.statistics import median
from egg_graph.evaluator.gpu.worker_session import WorkerSession

BURSTS, LONG_BURSTS = 7, 3
"""Number of bursts, and the number if their forwards take longer than a quarter of `LONGEST_BURST_MS`."""
AGAIN = 2
"""How many times as many bursts are measured after the clocks disagreed."""
UNCOUNTED_BURSTS = 2
"""First bursts without forwards, which warm the process up and do not count."""
SIZES = (1, 2, 4, 8, 14)
"""Numbers of calls that a burst may have."""
EMPTY_SPIN_MS = 2.0
"""Spin before a burst without forwards, longer than the burst takes to queue [ms]."""
ENOUGH_BURST_MS = 8.0
"""Time of a burst of the baseline's forwards that needs no further calls [ms], but in a thorough measurement: what a
burst costs the host once is then far below what the clocks may differ by. Every call takes new inputs."""
MOST_QUEUED, FEWEST_CALLS = 900, 2
"""Most launches of one burst: the driver queues about a thousand ahead of the GPU, and whoever launches more waits for
it, so that the judge's clock would tell how fast a host launches. And the number of calls that a burst may have for all
that, since one of a single call accuses nobody."""
LONGEST_BURST_MS = 200.0
"""About the longest time of one burst's forwards [ms]."""


@dataclass(frozen=True)
class BurstPair:
    """Bursts of the same number of calls."""

    with_forward: list[Burst]
    without: list[Burst]

    @property
    def host_bound(self) -> bool:
        """Whether the GPU had to wait for the host in most bursts with forwards."""
        return sum(burst.host_bound for burst in self.with_forward) * 2 > len(self.with_forward)

    @property
    def own_queue_ms(self) -> float:
        """Time per call that the judge's own part of queueing takes [ms]."""
        return (median([burst.queue_ms for burst in self.without]) + EMPTY_SPIN_MS) / self.without[0].calls


def measure_bursts(
    session: TimingSession,
    worker: WorkerSession,
    samples: PairedSamples,
    accept: Callable[[list[Any], int], bool],
    *,
    launches: int = 1,
    again: bool = False,
) -> BurstPair | None:
    """Measure bursts with forwards in the candidate's process, and without in a process that never loaded it.

    Args:
        session: the buffers.
        worker: the candidate's process.
        samples: recorded calls, which say how long a burst may be.
        accept: checks the answers of a burst, given structure and forms of each by the worker, and their number.
        launches: number of launches of one forward.
        again: whether the clocks disagreed before; then more bursts are measured.

    Returns:
        None if an answer was not accepted.
    """
    queue_ms = median(samples.queue_ms)
    longest_ms = max(median(samples.candidate_ms), queue_ms)
    warmup_calls = session.warmup_calls
    room = session.sets - warmup_calls
    sizes = [size for size in SIZES if size == 1 or (size <= room and size * longest_ms <= LONGEST_BURST_MS)]
    sizes = [size for size in sizes if size <= FEWEST_CALLS or size * launches <= MOST_QUEUED]
    calls = sizes[-1]
    if not samples.thorough:
        enough = ENOUGH_BURST_MS / median(samples.baseline_ms)  # the baseline's: all candidates have bursts of one size
        calls = next((size for size in sizes if size > 1 and size >= enough), calls)
    numbers = range(warmup_calls, warmup_calls + calls)
    spin_ns = int(1e6 * min(2.0 * calls * queue_ms + 1.0, 2 * LONGEST_BURST_MS))
    with_forward: list[Burst] = []
    for _ in range(count_bursts(calls * longest_ms) * (AGAIN if again else 1)):
        session.prepare_sets(warmup_calls + calls)
        forms = _run_warmup_burst(session, worker, spin_ns=spin_ns)
        burst, rest = session.run_burst(worker, numbers, spin_ns=spin_ns)
        forms += rest
        session.call_baseline(range(warmup_calls + calls))
        if not accept(forms, warmup_calls + calls):
            return None
        with_forward.append(burst)
    return BurstPair(with_forward, _bursts_without_forwards(session, worker, calls, again=again))


def count_bursts(milliseconds: float) -> int:
    """Return how many bursts are measured whose forwards take so long [ms]."""
    return BURSTS if milliseconds < LONGEST_BURST_MS / 4 else LONG_BURSTS


def _run_warmup_burst(
    session: TimingSession, worker: WorkerSession, *, spin_ns: int, forward: bool = True
) -> list[Any]:
    """Run the warm-up calls before a burst: the GPU has just switched from another process."""
    if not session.warmup_calls:
        return []
    return session.run_burst(worker, range(session.warmup_calls), spin_ns=spin_ns, forward=forward)[1]


def _bursts_without_forwards(session: TimingSession, worker: WorkerSession, calls: int, *, again: bool) -> list[Burst]:
    """Return bursts without forwards; a size is measured once for a baseline, when it is first needed.

    `again` adds some to those that are known. It replaces none: a candidate that lives meanwhile could slow them down,
    and the shortest count.
    """
    known = session.baseline.empty_bursts
    if calls in known and not again:
        return known[calls]
    numbers = range(session.warmup_calls, session.warmup_calls + calls)
    blank = open_blank(session, worker)
    try:
        bursts = [
            run_burst_of_blank(session, blank, numbers, spin_ns=int(1e6 * EMPTY_SPIN_MS))
            for _ in range(UNCOUNTED_BURSTS + BURSTS)
        ]
        known.setdefault(calls, []).extend(bursts[UNCOUNTED_BURSTS:])
    finally:
        blank.close()
    return known[calls]


def open_blank(session: TimingSession, worker: WorkerSession) -> WorkerSession:
    """A process that never loads a candidate, with the session's buffers open.

    Args:
        session: the buffers.
        worker: starts processes of its kind.
    """
    blank = worker.blank()
    try:
        blank.ask("open_timing", **session.forms)
    except BaseException:
        blank.close()
        raise
    return blank


def run_burst_of_blank(
    session: TimingSession, blank: WorkerSession, numbers: Sequence[int], *, spin_ns: int, null_ns: int = 0
) -> Burst:
    """Run one burst without forwards, or with null kernels that take `null_ns` [ns] in their place.

    Args:
        session: the buffers.
        blank: a process that never loaded a candidate.
        numbers: sets of inputs.
        spin_ns: spin before the burst [ns].
        null_ns: 0 calls no null kernels.
    """
    session.take_the_gpu()
    _run_warmup_burst(session, blank, spin_ns=1_000_000, forward=False)
    return session.run_burst(blank, numbers, spin_ns=spin_ns, forward=False, null_ns=null_ns)[0]
