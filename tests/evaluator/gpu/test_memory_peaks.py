"""Peaks of the judge and of the baseline in it, though PyTorch keeps one peak for a process."""

import pytest
import torch

from egg_graph.evaluator.gpu.arena import MemoryLimit
from egg_graph.evaluator.gpu.memory_peaks import baseline_peak, judge_peak
from egg_graph.evaluator.spending import accounted
from egg_graph.schema import Memory


class Allocator:
    """Counts like PyTorch's: what is allocated is reserved, too."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, initialized: bool = True) -> None:
        self.now = self.peak = 0.0
        for name, value in {
            "is_initialized": lambda: initialized,
            "memory_allocated": lambda: self.now,
            "max_memory_allocated": lambda: self.peak,
            "max_memory_reserved": lambda: self.peak + 2,
            "reset_peak_memory_stats": lambda: setattr(self, "peak", self.now),
        }.items():
            monkeypatch.setattr(torch.cuda, name, value)

    def hold(self, nbytes: float) -> None:
        self.now = nbytes
        self.peak = max(self.peak, nbytes)


def test_the_judges_peak_is_kept_where_the_baselines_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Allocator(monkeypatch)
    gpu.hold(1000)
    gpu.hold(10)
    with accounted() as account:
        with judge_peak():
            gpu.hold(70)
            gpu.hold(20)
            with baseline_peak():
                gpu.hold(50)
                gpu.hold(20)
            gpu.hold(30)
        assert account.spending().memory == Memory(judge_bytes=72, baseline_bytes=30), "and none of an earlier request"


def test_a_gpu_that_was_not_opened_has_no_peaks(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Allocator(monkeypatch, initialized=False)
    with accounted() as account:
        with judge_peak(), baseline_peak():
            gpu.hold(5)
        assert account.spending().memory == Memory()


def test_what_a_candidate_takes_is_noted_whenever_it_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    free = iter([100 << 30, 100 << 30, 93 << 30, 97 << 30])
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (next(free), 140 << 30))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: 0)
    with accounted() as account:
        watch = MemoryLimit(0.5)
        assert watch() is None
        assert watch() is None
        assert account.spending().memory == Memory(candidate_bytes=float(7 << 30)), "the most of both looks"


def test_what_others_take_for_the_judge_is_not_the_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    free = [64 << 30]
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device=None: (free[0], 64 << 30))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device=None: 0)
    watch = MemoryLimit(0.5)
    free[0] -= 1 << 30
    with watch.leaving_out():
        free[0] -= 2 << 30
    assert watch.taken() == 1 << 30
