"""A sweep on a GPU that is played by this process: pruning, successive halving, and what is told of each."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from egg_graph.evaluator.device.access import GpuAccess
from egg_graph.evaluator.gpu.worker_session import CandidateFailed
from egg_graph.evaluator.judge import gpu_screening
from egg_graph.evaluator.judge.compile_ahead import Configurations
from egg_graph.evaluator.judge.gpu_screening import GpuScreening
from egg_graph.evaluator.problem.memory_plan import GIB, MemoryPlan
from egg_graph.evaluator.progress import Progress, hear_progress
from egg_graph.schema import Candidate, Finding, Hardware, Trial

FOLDER = Path("/job")


class Session:
    """A candidate's process. The source says `ms`, `spills`, and after how many bursts it crashes."""

    log: list[tuple[int, str]] = []
    open = 0
    most = 0
    paused_now = 0
    compiling = Event()
    """Kernels are compiled once this is set."""

    def __init__(self, source: str) -> None:
        self.says = {key: float(value) for key, value in (word.split("=") for word in source.split() if "=" in word)}
        self.bursts, self.alive = 0, True
        Session.open += 1
        Session.most = max(Session.most, Session.open)

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        self.log.append((int(self.says["n"]), do))
        if do == "first_forward":
            self.compiling.wait()
            spills = int(self.says.get("spills", 0))
            launch = {
                "kernel": "k", "grid": [1], "num_warps": 4, "num_stages": 1, "registers": 64, "shared": 0,
                "spills": spills // 4, "constexprs": {},
            }  # fmt: skip
            pruned = f"k: spills {spills}" if arguments["hardware"] and spills > 512 else ""
            return {"launches": [launch], "pruned": pruned}
        if do == "warm_up":
            return {"queue_ms": 0.1, "wall_ms": self.says.get("wall", 1.0)}
        if do == "time_series":
            self.bursts += 1
            if self.bursts > self.says.get("crash", 99):
                raise CandidateFailed(Finding(kind="crashed", message="it crashed"), "")
            return {"event_ms": [self.says["ms"]] * arguments["calls"]}
        return {}

    @contextmanager
    def paused(self) -> Any:
        Session.paused_now += 1
        yield
        Session.paused_now -= 1

    def close(self) -> None:
        Session.open -= self.alive
        self.alive = False


@pytest.fixture
def sweep(h200: Hardware, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sweep configurations, each as its words; the trials in their order."""
    Session.log, Session.open, Session.most, Session.paused_now = [], 0, 0, 0
    Session.compiling.set()
    monkeypatch.setattr(gpu_screening, "WorkerSession", Session)
    right = SimpleNamespace(failed=False)
    executor = SimpleNamespace(carry_out=lambda group: right)
    monkeypatch.setattr("egg_graph.evaluator.gpu.executor.GpuExecutor", lambda *a: executor)
    monkeypatch.setattr("egg_graph.evaluator.problem.plan.loaded_group", lambda case: None)
    given: list[Candidate] = []

    base = SimpleNamespace(pool=ThreadPoolExecutor(4))
    ladder: Any = SimpleNamespace(
        base=base,
        machine="played",
        access=Access(Session.log),
        open=lambda folder, watched: Session(given[int(folder.name)].source),
    )

    def go(*words: str, capacity: int = 8, fingerprints: Sequence[str] = ()) -> list[Trial]:
        sources = [f"n={number} {word}" for number, word in enumerate(words)]
        given[:] = [
            Candidate(source=source, author="t", stage="tensor_tiling", mode="tune", config={"n": number})
            for number, source in enumerate(sources)
        ]
        problem: Any = SimpleNamespace(task=SimpleNamespace(target=h200))
        folders = [FOLDER / str(number) for number in range(len(given))]
        configurations = Configurations(given, [None] * len(given), folders, fingerprints)
        screening = GpuScreening(ladder, problem, SimpleNamespace(forward_seed=1), configurations, [], {})  # type: ignore[arg-type]
        screening.sweep(capacity)
        screening.close()
        assert Session.open == 0
        return [trial for _, trial in sorted(screening.trials.items())]

    return go


class Access(GpuAccess):
    """Notes whether the GPU is shared."""

    def __init__(self, log: list[Any]) -> None:
        super().__init__()
        self.log = log

    @contextmanager
    def computing(self) -> Any:
        self.log.append((-1, "shared"))
        yield

    @contextmanager
    def measuring(self) -> Any:
        self.log.append((-1, "alone"))
        yield


def bursts() -> dict[int, int]:
    timed = [number for number, do in Session.log if do == "time_series"]
    return {number: timed.count(number) for number in timed}


def test_the_better_half_is_timed_again_with_twice_as_many_bursts(sweep: Any) -> None:
    trials = sweep("ms=8", "ms=1", "ms=7", "ms=2", "ms=6", "ms=3", "ms=5", "ms=4")
    assert bursts() == {0: 1, 2: 1, 4: 1, 6: 1, 5: 3, 7: 3, 1: 7, 3: 7}
    assert [trial.merit for trial in trials] == [
        (0.5, 8), (0.0, 1), (0.5, 7), (0.0, 2), (0.5, 6), (0.5, 3), (0.5, 5), (0.5, 4)
    ]  # fmt: skip
    assert trials[1].reason == "right on one seed at full shape; median of 84 calls"
    assert (
        trials[0].reason == "right on one seed at full shape; median of 12 calls; not timed again: others were faster"
    )
    last = [number for number, do in Session.log if do == "time_series"][-8:]
    assert last == [1, 3, 3, 1, 1, 3, 3, 1], "the last two take turns"


def test_the_gpu_is_held_alone_only_while_a_configuration_is_timed(sweep: Any) -> None:
    sweep("ms=2", "ms=1", "ms=3")
    held = ""
    asked: dict[str, set[str]] = {"shared": set(), "alone": set()}
    for number, do in Session.log:
        held = do if number < 0 else held
        asked[held].add(do)
    assert asked["alone"] - {"alone"} == {"inputs", "warm_up", "time_series"}
    assert "first_forward" in asked["shared"] and "time_series" not in asked["shared"]


def test_processes_that_compile_are_paused_for_a_measurement(sweep: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    Session.compiling.clear()

    def give_way(paused: Any) -> None:
        if Session.open == 2 and ("first_forward" in [do for _, do in Session.log]):
            with paused():
                most.append(Session.paused_now)
            Session.compiling.set()

    most: list[int] = []
    monkeypatch.setattr(gpu_screening, "GLANCE", 0.01)
    monkeypatch.setattr(gpu_screening, "give_way", give_way)
    assert [trial.status for trial in sweep("ms=2", "ms=1")] == ["correct", "correct"]
    assert max(most) >= 1 and Session.paused_now == 0


def test_more_than_fit_at_once_pass_through_and_the_fastest_stay(sweep: Any) -> None:
    trials = sweep(*(f"ms={ms}" for ms in (5, 9, 1, 8, 7, 2, 6)), capacity=4)
    assert Session.most == 4
    assert [number for number, trial in enumerate(trials) if trial.merit[0] == 0.0] == [2, 5]
    assert min(trials, key=lambda trial: trial.merit).config == {"n": 2}


def test_a_sweep_that_takes_too_long_tells_what_it_leaves_out(sweep: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_screening, "LONGEST_SECONDS", -1.0)
    (trial,) = sweep("ms=3")
    assert trial.status == "pruned" and trial.reason.startswith("not compiled: the sweep had taken")


def test_twelve_are_halved_together(sweep: Any) -> None:
    trials = sweep(*(f"ms={ms}" for ms in range(12, 0, -1)), capacity=12)
    assert sorted(bursts().values()) == [1] * 6 + [3] * 3 + [7] + [15] * 2
    assert [number for number, trial in enumerate(trials) if trial.merit[0] == 0.0] == [10, 11]


def test_one_compiled_program_is_run_once(sweep: Any) -> None:
    trials = sweep("ms=3", "ms=9", "ms=2", "ms=9", "ms=4", fingerprints=["a", "a", "b", "b", ""])
    assert sorted({number for number, _ in Session.log if number >= 0}) == [0, 2, 4]
    assert [trial.milliseconds for trial in trials] == [3, 3, 2, 2, 4]
    assert trials[3].reason.startswith("not run: the same compiled program as configuration 3 (right on one seed")
    assert [trial.config for trial in trials] == [{"n": number} for number in range(5)]
    assert min(trials, key=lambda trial: trial.merit) is trials[2]


def test_where_one_fits_at_a_time_each_is_timed_once(sweep: Any) -> None:
    trials = sweep("ms=3", "ms=1", "ms=2", capacity=1)
    assert [trial.merit for trial in trials] == [(0.0, 3), (0.0, 1), (0.0, 2)]
    assert Session.most == 1 and bursts() == {0: 1, 1: 1, 2: 1}


def test_a_slow_forward_is_called_less_often(sweep: Any) -> None:
    assert "median of 3 calls" in sweep("ms=20 wall=20")[0].reason
    assert "median of 2 calls" in sweep("ms=100 wall=100")[0].reason


def test_what_the_compiler_speaks_against_is_not_run_and_told(sweep: Any) -> None:
    told: list[Progress] = []
    with hear_progress(told.append):
        trials = sweep("ms=3", "ms=1 spills=600", "ms=2 spills=500")
    assert [trial.status for trial in trials] == ["correct", "pruned", "correct"]
    assert trials[1].reason == "not run: k: spills 600; the kernel's own configuration keeps within that"
    assert trials[1].resources[0].spill_bytes == 600 and trials[1].merit == (2.0,)
    assert (1, "warm_up") not in Session.log
    assert {one.number for one in told if one.trial is not None} == {0, 1, 2}


def test_nothing_is_pruned_where_the_kernels_own_configuration_would_be(sweep: Any) -> None:
    trials = sweep("ms=3 spills=800", "ms=1 spills=600", "ms=2")
    assert [trial.status for trial in trials] == ["correct"] * 3
    assert min(trials, key=lambda trial: trial.merit).config == {"n": 1}


def test_a_kernel_with_a_tuner_of_its_own_is_not_pruned(sweep: Any) -> None:
    trials = sweep("ms=3", "ms=1 spills=600 autotune")
    assert trials[1].status == "correct" and trials[1].resources == ()


def test_one_that_fails_in_a_later_round_is_rejected_and_the_others_go_on(sweep: Any) -> None:
    trials = sweep("ms=3", "ms=1 crash=2", "ms=2")
    assert [trial.status for trial in trials] == ["correct", "runtime_error", "correct"]
    assert trials[1].reason == "it crashed" and trials[2].merit == (0.0, 2)


@pytest.mark.parametrize(
    ("room", "ready"),
    [(float("inf"), 12), (100.0, 12), (40.0, 7), (12.0, 4), (0.0, 4)],
)
def test_a_sweep_has_as_many_ready_as_others_leave_room_for(room: float, ready: int) -> None:
    plan = MemoryPlan(compulsory_bytes=1 * GIB, capacity=140 * GIB)
    assert gpu_screening.ready_at_once(plan, room * GIB, 20) == ready
    assert gpu_screening.ready_at_once(plan, room * GIB, 3) == 3, "no more than there are"
    assert gpu_screening.bytes_of_sweep(plan, ready) == (6 + 2 * ready) * GIB


def test_a_task_of_half_the_gpu_has_few_ready_at_once() -> None:
    plan = MemoryPlan(compulsory_bytes=20 * GIB, capacity=140 * GIB)
    assert gpu_screening.ready_at_once(plan, float("inf"), 20) == 2
    assert plan.usual_bytes == 122 * GIB
    assert MemoryPlan(compulsory_bytes=10 * GIB, capacity=140 * GIB).usual_bytes == 72 * GIB
    assert MemoryPlan(compulsory_bytes=2 * GIB, capacity=140 * GIB).usual_bytes == 18 * GIB
