"""The GPU ladder's order of events, with stand-ins for GPU, gate, interpreter and clock."""

import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from egg_graph.evaluator.device.access import GpuAccess
from egg_graph.evaluator.device.lease import Lease
from egg_graph.evaluator.evidence.builder import EvaluationBuilder
from egg_graph.evaluator.gpu import ladder as gpu_ladder
from egg_graph.evaluator.gpu import profiles
from egg_graph.evaluator.gpu.ladder import GpuLadder
from egg_graph.evaluator.gpu.timing.measurement import TimingResult
from egg_graph.evaluator.host.fork_server import ChildExit
from egg_graph.evaluator.judge import gpu_screening as screen
from egg_graph.evaluator.judge.compile_ahead import Configurations
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.spending import accounted
from egg_graph.evaluator.tools import sanitizer_rung
from egg_graph.evaluator.tools.sanitizer_rung import WaitingSanitizer
from egg_graph.evaluator.tools.waiting_profiler import WaitingProfiler
from egg_graph.evaluator.worker import gpu_worker as gpu_worker
from egg_graph.schema import (
    Candidate,
    Finding,
    InfrastructureError,
    KernelResources,
    KernelTask,
    Profile,
    Timing,
    Trial,
)
from tests.evaluator.gpu.stand_ins import REFERENCE, InProcess

RIGHT = REFERENCE.split("m = 64")[0].replace("class Model(", "class ModelNew(")
LAUNCH = {
    "kernel": "k", "grid": [4], "num_warps": 4, "num_stages": 2, "registers": 32, "spills": 0, "shared": 0,
}  # fmt: skip


class Jobs:
    """The part of `JobRunner` that a GPU ladder uses."""

    timeout = 60.0
    compiling = None
    code = None

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def job_folder(self, candidate: Candidate) -> Iterator[Path]:
        folder = Path(tempfile.mkdtemp(dir=self.folder))  # what compiles ahead has one at the same time
        (folder / "candidate.py").write_text(candidate.source)
        yield folder


class Base:
    """The part of `Ladder` that a GPU ladder uses, without gate and interpreter."""

    def __init__(self, folder: Path) -> None:
        self.jobs = Jobs(folder)
        self.pool = ThreadPoolExecutor(2)

    def gate(self, candidate: Candidate, builder: EvaluationBuilder) -> bool:
        return True

    def fake_call(
        self, problem: Problem, budget_seconds: float = 1.0, wall_seconds: float = 1.0, *, shape: str
    ) -> dict[str, Any]:
        return {}

    def launches(
        self, task: KernelTask, candidate: Candidate, call: dict[str, Any], builder: EvaluationBuilder
    ) -> None:
        builder.fail("full_shape_launches", [Finding(kind="exception", message="unknown instruction")], 0.5)


class Session(InProcess):
    """As the ladder opens one."""

    opened: list["Session"] = []

    def __init__(self, fork_server: Any, folder: Path, timeout: float, watch: Any = None) -> None:
        super().__init__(folder)
        self.watch = watch
        self.opened.append(self)

    def prepare_blank(self) -> None:
        """No process is needed here."""


def time_candidate(session: Any, problem: Problem, baseline: Any, machine: str, **options: Any) -> TimingResult:
    timing = Timing(
        candidate_ms=1.0, eager_ms=2.0, baseline="eager", ratio=2.0, ratio_low=1.9, ratio_high=2.1, pairs=32
    )
    return TimingResult({"launches": [LAUNCH], "share": 1.0}, timing)


def start(worker: Any, command: dict[str, Any]) -> dict[str, Any]:
    worker.commands["warm_up"] = lambda command: {"queue_ms": 1.0, "wall_ms": 1.0}
    worker.commands["time_series"] = lambda command: {"event_ms": [1.0] * command["calls"]}
    return {"ok": True}


@pytest.fixture
def ladder(monkeypatch: pytest.MonkeyPatch, stand_in: None, tmp_path: Path) -> GpuLadder:
    Session.opened = []
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device=None: (64 << 30, 64 << 30))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device=None: 0)
    monkeypatch.setattr(gpu_worker.GpuWorker, "start", start)
    monkeypatch.setattr(gpu_ladder, "WorkerSession", Session)
    monkeypatch.setattr(screen, "WorkerSession", Session)
    monkeypatch.setattr(gpu_ladder.integrity, "examine", lambda *a: True)
    monkeypatch.setattr(gpu_ladder, "time_candidate", time_candidate)
    for name in ("baseline", "compiled_baseline"):
        monkeypatch.setattr(
            GpuLadder,
            name,
            lambda self, problem: SimpleNamespace(case=next(iter(problem.full_cases())), empty_bursts={}),
        )
    return GpuLadder(Base(tmp_path), "stand-in")  # type: ignore[arg-type]


def profilers_of(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What is done with each profiler that the ladder makes from now on."""
    done: list[list[str]] = []

    class Profiler(WaitingProfiler):
        def __init__(self, *settings: Any) -> None:
            super().__init__(*settings)
            self.done: list[str] = []
            done.append(self.done)

        def start(self, kernels: Any) -> None:
            assert "forward" in kernels
            self.done.append("start")

        def close(self) -> None:
            self.done.append("end")

    monkeypatch.setattr(profiles, "WaitingProfiler", Profiler)
    return done


def sanitizers_of(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What is done with each sanitizer that the ladder makes from now on; its tools tell nothing."""
    done: list[list[str]] = []

    class Sanitizer(WaitingSanitizer):
        waits = True

        def __init__(self, *settings: Any) -> None:
            super().__init__(*settings)
            self.done: list[str] = []
            done.append(self.done)

        def launch(self, payload: Any) -> None:
            assert "forward" in payload["kernels"] and (self.folder / "candidate.py").read_text() == RIGHT
            self.done.append("start")

        def wait_until_ready(self) -> None:
            self.done.append("ready")

        def load(self, case: Any) -> None:
            self.done.append("load")

        def go(self) -> ChildExit:
            self.done.append("go")
            time.sleep(0.05)
            return ChildExit("exit", 0, 0.0, {"answer": {"status": {}}}, "")

        def close(self) -> None:
            self.done.append("end")

    monkeypatch.setattr(sanitizer_rung, "shutil", SimpleNamespace(which=lambda name: name))
    monkeypatch.setattr(gpu_ladder, "WaitingSanitizer", Sanitizer)
    return done


def candidate(source: str) -> Candidate:
    return Candidate(source=source, author="test", stage="algorithmic_structure", mode="seed")


def test_a_right_kernel_climbs_to_the_clock(ladder: GpuLadder, problem: Problem) -> None:
    builder, verdict = ladder.evaluate(problem, candidate(RIGHT), None)
    assert not builder.failed, builder.findings
    assert verdict is not None
    assert verdict[0] == "faster"
    outcomes = {rung.name: rung.outcome for rung in builder.rungs}
    assert outcomes["process"] == outcomes["correctness_full"] == outcomes["other_inputs"] == "passed"
    assert outcomes["timing"] == "passed"
    assert outcomes["full_shape_launches"] == outcomes["roofline"] == "skipped"
    assert "unknown instruction" in next(r.statement for r in builder.rungs if r.name == "full_shape_launches")
    assert "repeats" not in outcomes


def test_the_baseline_is_compiled_while_others_use_the_gpu_which_is_held_alone_once(
    ladder: GpuLadder, problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    class Access(GpuAccess):
        @contextmanager
        def measuring(self) -> Any:
            done.append("measuring")
            yield

    ladder.access = Access()
    compiled = GpuLadder.compiled_baseline
    monkeypatch.setattr(
        GpuLadder, "compiled_baseline", lambda self, problem: (done.append("compiled"), compiled(self, problem))[1]
    )
    monkeypatch.setattr(Session, "prepare_blank", lambda self: done.append("blank"))
    builder, _ = ladder.evaluate(problem, candidate(RIGHT), None)
    assert builder.outcome_of("timing") is not None
    assert done == ["compiled", "blank", "measuring"]


def test_the_time_of_each_rung_is_counted_for_what_it_is(
    ladder: GpuLadder, problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_ladder, "trace_candidate", lambda *a: None)
    sanitizers_of(monkeypatch)
    started = time.monotonic()
    with accounted() as account:
        ladder.evaluate(problem, candidate(RIGHT), None, finalist=True)
        spent = account.spending().seconds
    assert sum(spent.values()) == pytest.approx(time.monotonic() - started, abs=0.05)
    assert {"correctness", "timing", "sanitizer"} <= set(spent)
    assert 0.05 <= spent["sanitizer"] < 0.5
    assert spent["correctness"] > spent["timing"]


def test_a_finalist_is_repeated_traced_and_watched_for_memory_faults(
    ladder: GpuLadder, problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = sanitizers_of(monkeypatch)
    monkeypatch.setattr(gpu_ladder, "trace_candidate", lambda *a: watched[-1].append("trace"))
    builder, _ = ladder.evaluate(problem, candidate(RIGHT), None, finalist=True)
    assert watched == [["start", "trace", "ready", "load", "go", "end"]], "it starts before the full shape, and waits"
    assert {"repeats", "sanitizer"} <= {rung.name for rung in builder.rungs}
    ladder.evaluate(problem, candidate(RIGHT), None)
    assert watched[1:] == [["end"]], "only a finalist is watched"


@pytest.mark.parametrize("source", [RIGHT, RIGHT.replace("torch.relu", "torch.tanh")], ids=["right", "wrong"])
def test_nobody_measures_while_a_candidates_process_ends(
    ladder: GpuLadder, problem: Problem, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: str
) -> None:
    """The driver frees its memory then, and what runs on the GPU is slower meanwhile."""
    lease, others, ended = Lease("GPU-x", folder=tmp_path, patience=20, quantum=0.0), list[Thread](), list[bool]()
    measured, close = Event(), Session.close

    def measure() -> None:
        with GpuAccess(lease).measuring():
            measured.set()

    def close_beside_one_who_measures(self: Session) -> None:
        if self.alive and not others:
            others.append(Thread(target=measure))
            others[0].start()
            time.sleep(0.2)
            ended.append(not measured.is_set())
        close(self)

    monkeypatch.setattr(Session, "close", close_beside_one_who_measures)
    ladder.access = GpuAccess(lease)
    ladder.evaluate(problem, candidate(source), None)
    others[0].join(20)
    assert ended == [True] and measured.is_set()


def test_nobody_measures_while_a_sanitizer_has_the_gpu(
    ladder: GpuLadder, problem: Problem, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Stopped in the middle, its kernels would keep the GPU busy until they go on."""
    lease, order = Lease("GPU-x", folder=tmp_path, patience=20, quantum=0.0), list[str]()
    watched = sanitizers_of(monkeypatch)
    go = gpu_ladder.WaitingSanitizer.go

    def measure() -> None:
        with GpuAccess(lease).measuring():
            order.append("measured")

    def go_beside_one_who_measures(self: WaitingSanitizer) -> ChildExit:
        other.start()
        time.sleep(0.2)
        order.append("sanitized")
        return go(self)

    other = Thread(target=measure)
    monkeypatch.setattr(gpu_ladder.WaitingSanitizer, "go", go_beside_one_who_measures)
    monkeypatch.setattr(gpu_ladder, "trace_candidate", lambda *a: None)
    ladder.access = GpuAccess(lease)
    ladder.evaluate(problem, candidate(RIGHT), None, finalist=True)
    other.join(20)
    assert "go" in watched[0] and order == ["sanitized", "measured"]


def test_a_finalist_that_is_not_right_ends_its_sanitizer(
    ladder: GpuLadder, problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def examine(session: Any, problem: Problem, case: Any, machine: str, builder: EvaluationBuilder) -> bool:
        builder.fail(gpu_ladder.integrity.RUNG, [Finding(kind="library_call", message="a library computes it")])
        return False

    monkeypatch.setattr(gpu_ladder.integrity, "examine", examine)
    watched = sanitizers_of(monkeypatch)
    ladder.evaluate(problem, candidate(RIGHT), None, finalist=True)
    assert watched == [["start", "end"]]


def test_an_access_that_strays_at_an_odd_shape_alone_rejects(
    ladder: GpuLadder, problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The GPU's answers are right: what was read there is masked away."""
    shapes: list[str] = []

    def launches(task: KernelTask, candidate: Candidate, call: dict[str, Any], builder: EvaluationBuilder) -> None:
        if call["shape"] == "awkward":
            builder.fail("full_shape_launches", [Finding(kind="out_of_bounds", message="a load beyond x")], 0.5)

    def fake_call(
        problem: Problem, budget_seconds: float = 1.0, wall_seconds: float = 1.0, *, shape: str
    ) -> dict[str, Any]:
        shapes.append(shape)
        return {"shape": shape}

    monkeypatch.setattr(ladder.base, "launches", launches)
    monkeypatch.setattr(ladder.base, "fake_call", fake_call)
    builder, verdict = ladder.evaluate(problem, candidate(RIGHT), None)
    assert set(shapes) == {"full", "awkward"}
    assert verdict is None
    assert builder.failed
    assert {rung.name: rung.outcome for rung in builder.rungs}["bounds_at_odd_shape"] == "failed"


def test_metrics_of_another_stage_are_taken_without_another_verdict(
    ladder: GpuLadder, problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def profile_candidate(profiler, access, problem, case, builder) -> None:
        assert (profiler.folder / "candidate.py").read_text() == RIGHT and builder.triton_share == 0.5
        builder.profile = Profile(source="ncu", kernel=f"{builder.resources[0].kernel} in {profiler.stage}")

    monkeypatch.setattr(gpu_ladder, "profile_candidate", profile_candidate)
    kernel = KernelResources(kernel="k", target="sm_90", grid=(4,), num_warps=4, num_stages=2)
    ladder.profiles.profiling = True
    taken = ladder.profile(problem, candidate(RIGHT), "tensor_tiling", (kernel,), 0.5)
    assert (taken.source, taken.kernel) == ("ncu", "k in tensor_tiling") and ladder.profiles.fastest == {}
    ladder.profiles.profiling = False
    told = ladder.profile(problem, candidate(RIGHT), "tensor_tiling", (kernel,), 0.5)
    assert (told.source, told.why) == ("compiled", "profiling is off")


def test_only_a_faster_kernel_is_profiled(ladder: GpuLadder, problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    profiled: list[float] = []
    ladder.profiles.profiling = True
    monkeypatch.setattr(profiles, "profile_candidate", lambda *a: profiled.append(a[4].timing.candidate_ms))
    started = profilers_of(monkeypatch)
    ladder.evaluate(problem, candidate(RIGHT), None)
    ladder.evaluate(problem, candidate(RIGHT + "\n"), None)
    assert profiled == [1.0]
    builder, _ = ladder.evaluate(problem, candidate(RIGHT), None)
    assert profiled == [1.0]
    assert [rung.statement for rung in builder.rungs if rung.name == "profile"] == ["this kernel's profile of before"]
    assert started == [["start", "end"], ["start", "end"], ["end"]]


def test_where_nobody_reads_metrics_a_finalist_alone_is_profiled(
    ladder: GpuLadder, problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    profiled: list[str] = []
    ladder.profiles.profiling = "finalists"
    monkeypatch.setattr(profiles, "profile_candidate", lambda *a: profiled.append(a[3].name))
    started = profilers_of(monkeypatch)
    monkeypatch.setattr(gpu_ladder, "trace_candidate", lambda *a: None)
    builder, _ = ladder.evaluate(problem, candidate(RIGHT), None)
    assert not profiled
    assert [r.statement for r in builder.rungs if r.name == "profile"] == ["not profiled: only finalists are"]
    ladder.evaluate(problem, candidate(RIGHT), None, finalist=True)
    assert len(profiled) == 1
    assert started == [["end"], ["start", "end"]]


def test_a_profiler_is_started_for_what_is_right_so_far_and_always_ended(
    ladder: GpuLadder, problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    ladder.profiles.profiling = True
    started = profilers_of(monkeypatch)
    ladder.evaluate(problem, candidate(RIGHT.replace("relu", "sigmoid")), None)
    assert started == [["end"]]

    def lost(*rest: Any) -> bool:
        assert started[-1] == ["start"]
        raise InfrastructureError("the fork server was lost")

    monkeypatch.setattr(gpu_ladder.integrity, "examine", lost)
    with pytest.raises(InfrastructureError):
        ladder.evaluate(problem, candidate(RIGHT), None)
    assert started == [["end"], ["start", "end"]]


def test_a_worker_that_did_not_survive_silence_is_replaced_before_the_clock(
    ladder: GpuLadder, problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def examine(session: Any, *rest: Any) -> bool:
        session.close()
        return True

    monkeypatch.setattr(gpu_ladder.integrity, "examine", examine)
    _, verdict = ladder.evaluate(problem, candidate(RIGHT), None)
    assert verdict is not None
    assert len(Session.opened) == 2
    assert not any(session.alive for session in Session.opened[:1])


def test_no_speed_is_told_where_the_full_shape_could_not_be_compared(
    ladder: GpuLadder, problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_cases() -> Any:
        raise torch.OutOfMemoryError("140 GiB")

    monkeypatch.setattr(problem, "full_cases", full_cases)
    builder, verdict = ladder.evaluate(problem, candidate(RIGHT), None)
    assert not builder.failed
    assert verdict is not None
    assert verdict[0] == "correct"
    assert "140 GiB" in verdict[1]
    assert builder.timing is None
    assert [rung.outcome for rung in builder.rungs if rung.name == "correctness_full"] == ["skipped"]


def screen_on_gpu(ladder: GpuLadder, problem: Problem, candidates: list[Candidate], capacity: int) -> list[Trial]:
    with ExitStack() as stack:
        folders = [stack.enter_context(ladder.base.jobs.job_folder(one)) for one in candidates]
        configurations = Configurations(candidates, [None] * len(candidates), folders)
        return screen.screen_on_gpu(ladder, problem, configurations, capacity)


def test_screening_ranks_right_configurations_and_names_what_is_wrong(ladder: GpuLadder, problem: Problem) -> None:
    wrong = candidate(RIGHT.replace("torch.relu(", "torch.neg("))
    broken = candidate(RIGHT.replace("torch.relu(", "torch.missing("))
    trials = screen_on_gpu(ladder, problem, [candidate(RIGHT), wrong, broken], 3)
    assert [trial.status for trial in trials] == ["correct", "incorrect", "runtime_error"]
    assert trials[0].merit == (0.0, 1.0)
    assert all(session.watch is None for session in Session.opened)


def test_a_task_too_large_to_be_kept_is_screened(ladder: GpuLadder, problem: Problem) -> None:
    case = ladder.baseline(problem).case
    case.make_transient()
    assert case.inputs[0].device.type == "meta"
    trials = screen_on_gpu(ladder, problem, [candidate(RIGHT)], 1)
    assert [trial.status for trial in trials] == ["correct"], trials
    assert case.inputs[0].device.type == "meta"
    case.transient = False
    with case.held():
        pass  # as the other tests find it
