"""When enough pairs are measured, and how many calls a burst has."""

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from egg_graph.evaluator.gpu.timing import bursts
from egg_graph.evaluator.gpu.timing.agreement import Burst
from egg_graph.evaluator.gpu.timing.bursts import measure_bursts
from egg_graph.evaluator.gpu.timing.samples import FEWEST_PAIRS, MOST_PAIRS, PairedSamples
from egg_graph.evaluator.gpu.timing.session import PairedBlock

CALLS = 4


def blocks(ratio: float, noise: float) -> Callable[[], PairedBlock]:
    """Blocks of calls that take 1 ms on one side and about `ratio` on the other, give or take `noise` of it."""
    draws = random.Random(0)

    def measure() -> PairedBlock:
        times = [ratio * (1 + draws.uniform(-noise, noise)) for _ in range(CALLS)]
        return PairedBlock(candidate_ms=[1.0] * CALLS, baseline_ms=times, queue_ms=[0.01] * CALLS)

    return measure


@pytest.mark.parametrize(
    ("ratio", "noise", "thorough", "pairs"),
    [
        (2.0, 0.02, False, FEWEST_PAIRS),
        (0.8, 0.02, False, FEWEST_PAIRS),
        (2.0, 0.02, True, MOST_PAIRS),
        (1.01, 0.02, False, MOST_PAIRS),
        (2.0, 0.5, False, MOST_PAIRS),
    ],
    ids=["faster", "slower", "a finalist", "near 1", "noisy"],
)
def test_pairs_are_measured_until_the_verdict_is_beyond_doubt(
    ratio: float, noise: float, thorough: bool, pairs: int
) -> None:
    samples = PairedSamples(thorough=thorough)
    assert samples.collect(blocks(ratio, noise))
    assert samples.pairs == pairs


@pytest.mark.parametrize(
    ("baseline_ms", "thorough", "launches", "calls"),
    [
        *((0.02, False, 1, 14), (1.0, False, 1, 8), (2.5, False, 1, 4), (60.0, False, 1, 2), (150.0, False, 1, 1)),
        *((2.5, True, 1, 14), (0.02, False, 200, 4), (2.5, True, 384, 2), (0.02, False, 5000, 2)),
    ],
)
def test_a_burst_has_as_many_calls_as_tell_enough_and_the_driver_queues(
    monkeypatch: pytest.MonkeyPatch, baseline_ms: float, thorough: bool, launches: int, calls: int
) -> None:
    monkeypatch.setattr(bursts, "_bursts_without_forwards", lambda *a, **k: [])
    asked: list[int] = []

    class Session:
        warmup_calls, sets = 2, 16

        def run_burst(self, worker: Any, numbers: range, **options: Any) -> tuple[Burst, list[Any]]:
            asked.append(len(numbers))
            return Burst(len(numbers), 1.0, -1.0), []

        def prepare_sets(self, count: int) -> None: ...

        def call_baseline(self, numbers: range) -> None: ...

    samples = PairedSamples(thorough=thorough)
    samples.candidate_ms, samples.baseline_ms, samples.queue_ms = [baseline_ms] * 4, [baseline_ms] * 4, [0.01] * 4
    session: Any = Session()
    worker: Any = SimpleNamespace()
    assert measure_bursts(session, worker, samples, lambda forms, count: True, launches=launches) is not None
    assert asked[1::2] == [calls] * (len(asked) // 2)
