"""Measure what a user without CUDA graphs sees: forwards called back to back, by the judge's wall clock.

It is told beside the ratio, for both sides alike, and decides nothing: a host that is busy, or slow, is no property of
a kernel.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from egg_graph.evaluator.device.stream_timer import HostLatency
from egg_graph.evaluator.gpu.timing.baseline import PyTorchBaseline
from egg_graph.evaluator.gpu.timing.statistics import median
from egg_graph.evaluator.gpu.worker_session import WorkerSession

ROUNDS = 3
"""How often both sides are measured, in turns."""
ROUND_MS, MOST_CALLS = 5.0, 32
"""About the time of the slower side's round [ms], and the most calls of one."""


@dataclass(frozen=True)
class HostTimes:
    """Time of one call on the host, launches included (medians)."""

    candidate_ms: float
    baseline_ms: float


def measure_host_times(worker: WorkerSession, baseline: PyTorchBaseline, latency: HostLatency) -> HostTimes:
    """Measure both sides in turns.

    Args:
        worker: the candidate's process, with inputs in place.
        baseline: PyTorch's forwards.
        latency: about the candidate's own.

    Raises:
        CandidateFailed: if a call does not come back.
    """
    slower_ms = max(latency.wall_ms, baseline.latencies[baseline.best].wall_ms)
    calls = max(1, min(MOST_CALLS, int(ROUND_MS / max(slower_ms, 1e-3))))
    candidate_ms, baseline_ms = [], []
    for _ in range(ROUNDS):
        asking_ms = _milliseconds(lambda: worker.ask("synchronize"))
        whole_ms = _milliseconds(lambda: worker.ask("call_repeatedly", calls=calls))
        candidate_ms.append(max(0.0, whole_ms - asking_ms) / calls)
        baseline_ms.append(_milliseconds(lambda: baseline.call_repeatedly(calls)) / calls)
    return HostTimes(median(candidate_ms), median(baseline_ms))


def _milliseconds(act: Callable[[], object]) -> float:
    began = time.monotonic()
    act()
    return 1e3 * (time.monotonic() - began)
