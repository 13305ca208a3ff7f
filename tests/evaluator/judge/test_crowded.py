"""What ran short of memory beside other judges on the same GPU is done again with more of it, and at last alone."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from egg_graph.evaluator.device.access import MORE_ROOM_FOLLOWS, RESERVABLE_PART
from egg_graph.evaluator.evidence.builder import EvaluationBuilder
from egg_graph.evaluator.judge.judge import Judge
from egg_graph.evaluator.problem.memory_plan import GIB, MemoryPlan
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.schema import Candidate, Hardware, KernelTask
from tests.evaluator.gpu.stand_ins import REFERENCE

PLAN = MemoryPlan(compulsory_bytes=1 * GIB, capacity=100 * GIB)


class Reservations:
    """Notes what is reserved."""

    others = False

    def __init__(self) -> None:
        self.asked: list[float] = []

    @contextmanager
    def reserved(self, nbytes: float) -> Iterator[float]:
        self.asked.append(nbytes / GIB)
        yield 0.0


class Ladder:
    """Runs out of memory in its first evaluations."""

    def __init__(self, judge: Judge, crowded: bool, *, short: int = 1) -> None:
        self.judge, self.crowded, self.short, self.evaluations = judge, crowded, short, 0
        self.baselines = self

    def drop(self, digest: str) -> None:
        """Nothing is kept."""

    def evaluate(self, *asked: Any) -> tuple[EvaluationBuilder, Any]:
        self.evaluations += 1
        with self.judge.access.at_full_shape(), self.judge.access.at_full_shape():  # reserved once
            self.judge.access.crowded = self.crowded
        builder = EvaluationBuilder()
        if self.evaluations <= self.short:
            builder.short_of_memory = "the GPU's memory does not hold the full shape"
            return builder, ("correct", "right wherever it was compared; no speed is told")
        return builder, ("faster", "2.00x")


@pytest.fixture
def judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Judge:
    settings = {"device": "none", "timeout": 60.0, "seed": None, "profile": False, "gpu": None}
    made = Judge(settings, tmp_path, None, None)  # type: ignore[arg-type]
    monkeypatch.setattr(Judge, "_problem", lambda self, task: Problem(task, self.root_seed, torch.device("cpu")))
    monkeypatch.setattr(Problem, "memory_plan", PLAN)
    made.room.access, made.access.reservations = made.access, Reservations()  # type: ignore[assignment]
    return made


@pytest.fixture
def task(h200: Hardware) -> KernelTask:
    return KernelTask(name="linear", reference=REFERENCE, target=h200, precision="ieee")


@pytest.mark.parametrize("crowded", [True, False])
def test_a_kernel_is_judged_again_where_others_may_have_taken_the_memory(
    judge: Judge, task: KernelTask, crowded: bool
) -> None:
    ladder: Any = Ladder(judge, crowded)
    judge.gpu = ladder
    candidate = Candidate(source="def (", author="test", stage="algorithmic_structure", mode="seed")
    told = judge.evaluate(task, candidate, None, False)
    assert told.status == ("faster" if crowded else "correct")
    usual = PLAN.usual_bytes / GIB
    asked = judge.access.reservations.asked  # type: ignore[union-attr]
    survey, once, more = [PLAN.baseline_bytes / GIB], [0.0, usual], [0.0, 60.0]
    assert asked == survey + once + (more if crowded else [])


@pytest.mark.parametrize("crowded", [True, False])
def test_a_reference_that_found_no_memory_is_run_again_before_it_is_told_that_it_does_not_fit(
    judge: Judge, task: KernelTask, monkeypatch: pytest.MonkeyPatch, crowded: bool
) -> None:
    runs: list[float] = []

    def survey(self: Judge, problem: Problem) -> Any:
        runs.append(1.0)
        self.access.crowded = crowded
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(Judge, "_surveyed", survey)
    candidate = Candidate(source="def (", author="test", stage="algorithmic_structure", mode="seed")
    told = judge.evaluate(task, candidate, None, False)
    assert told.status == "unevaluable" and told.reason.startswith("does not fit: judging at full shape takes about 6")
    assert len(runs) == (3 if crowded else 1)


def test_an_answer_in_fp32_stands_in_only_where_nobody_else_may_hold_the_memory(
    judge: Judge, task: KernelTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two judges side by side one took fp32's answer, and told later that the task does not fit the GPU."""
    asked: list[bool] = []

    def survey(self: Judge, problem: Problem) -> Any:
        asked.append(MORE_ROOM_FOLLOWS.get()())
        if asked[-1]:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return problem.untimed_baseline

    monkeypatch.setattr(Judge, "_surveyed", survey)
    reservations: Any = judge.access.reservations
    reservations.others = True
    assert not judge.baseline(task).unevaluable
    assert asked == [True, True, False]
    reservations.others = False
    asked.clear()
    assert not judge.baseline(task).unevaluable
    assert asked == [False]


def test_what_runs_short_in_ample_memory_is_judged_with_nobody_else_at_work(judge: Judge, task: KernelTask) -> None:
    """Judges take more than they reserve; one that is at work need not have been seen on the GPU."""
    judge.gpu = ladder = Ladder(judge, crowded=False, short=2)  # type: ignore[assignment]
    reservations: Any = judge.access.reservations
    reservations.others = True
    candidate = Candidate(source="def (", author="test", stage="algorithmic_structure", mode="seed")
    told = judge.evaluate(task, candidate, None, False)
    assert (told.status, ladder.evaluations) == ("faster", 3)
    assert reservations.asked[-3:] == [0.0, 60.0, float("inf")]


def test_of_gigabytes_two_references_are_timed_at_a_time_and_one_kernel_judged() -> None:
    """An elementwise operator on 6.4 GiB, on a GPU of 140 GiB."""
    plan = MemoryPlan(compulsory_bytes=12.8 * GIB, capacity=140 * GIB)
    reservable = RESERVABLE_PART * plan.capacity
    assert 2 * plan.baseline_bytes <= reservable < plan.usual_bytes + plan.baseline_bytes
    small = MemoryPlan(compulsory_bytes=0.01 * GIB, capacity=140 * GIB)
    assert small.baseline_bytes < small.usual_bytes < 3 * GIB
