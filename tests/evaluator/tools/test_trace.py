"""Who has the GPU while a finalist is traced on it: others as well until all but the traced forward is done."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from egg_graph.evaluator.device.access import GpuAccess
from egg_graph.evaluator.device.detect import gpu_present
from egg_graph.evaluator.device.lease import Lease
from egg_graph.evaluator.host.fork_server import ChildExit, ForkServer
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.tools import device_trace
from egg_graph.evaluator.tools.device_trace import DeviceTrace, trace_forward
from egg_graph.evaluator.tools.waiting_job import WaitingJob
from egg_graph.schema import Hardware, KernelTask
from tests.evaluator.gpu.stand_ins import REFERENCE
from tests.paths import IMPORTABLE

ANSWER = {"rows": [{"name": "k", "kind": "kernel", "count": 1, "us": 5.0}], "busy_ms": 0.005, "streams": 1}


WARM = ("egg_graph.evaluator.worker.trace_job", "tests.evaluator.tools.pretended_trace")


@pytest.fixture
def problem(h200: Hardware) -> Problem:
    return Problem(KernelTask(name="linear", reference=REFERENCE, target=h200, precision="ieee"), 7)


def test_the_gpu_is_held_alone_only_for_the_traced_forward(
    problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    class Access(GpuAccess):
        @contextmanager
        def computing(self) -> Iterator[None]:
            done.append("shared")
            yield
            done.append("let go")

        @contextmanager
        def measuring(self) -> Iterator[None]:
            done.append("alone")
            yield
            done.append("given back")

    class Job(WaitingJob):
        def launch(self, payload: Any) -> None:
            assert not self._tools, "what runs the candidate may do no more than any other job"
            assert payload["precision"] == "ieee" and (tmp_path / "inputs.bin").exists()
            done.append("launched")

        def wait_until_ready(self) -> None:
            done.append("ready")

        def go(self) -> ChildExit:
            done.append("traced")
            return ChildExit("exit", 0, 0.0, {"answer": {**ANSWER, "launches": {"k": 1}}}, "")

    monkeypatch.setattr(device_trace, "WaitingJob", Job)
    case = next(iter(problem.full_cases()))
    traced = trace_forward(None, Access(), problem, case, tmp_path)  # type: ignore[arg-type]
    assert isinstance(traced, DeviceTrace) and traced.own_share == 1.0
    assert done == ["shared", "launched", "ready", "let go", "alone", "traced", "given back"]


@pytest.fixture
def fork_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ForkServer]:
    monkeypatch.setenv("PYTHONPATH", IMPORTABLE)
    (tmp_path / "server").mkdir()
    made = ForkServer(interpret=False, folder=tmp_path / "server", warm=WARM)
    yield made
    made.stop()


def test_a_job_traces_when_the_judge_says_go_and_one_that_cannot_says_why(
    problem: Problem, tmp_path: Path, fork_server: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, folder = next(iter(problem.full_cases())), tmp_path / "job"
    folder.mkdir()
    if not gpu_present():
        traced = trace_forward(fork_server, GpuAccess(), problem, case, folder)
        assert isinstance(traced, str) and ("CUDA" in traced or "NVIDIA" in traced)

    class Pretended(WaitingJob):
        def __init__(self, fork_server: ForkServer, folder: Path, job: str, *rest: Any, **options: Any) -> None:
            super().__init__(fork_server, folder, "tests.evaluator.tools.pretended_trace:run", *rest, **options)

    monkeypatch.setattr(device_trace, "WaitingJob", Pretended)
    traced = trace_forward(fork_server, GpuAccess(), problem, case, folder)
    assert isinstance(traced, DeviceTrace) and traced.streams == 1 and traced.own_share == 1.0


def test_a_measurement_waits_for_no_job_that_gets_ready(tmp_path: Path) -> None:
    lease, measured = Lease("GPU-x", folder=tmp_path / "leases", patience=20, quantum=0.0), Event()

    class Slow(WaitingJob):
        @property
        def waits(self) -> bool:
            return not measured.is_set()

    def measure() -> None:
        with GpuAccess(lease).measuring():
            measured.set()

    other = Thread(target=measure)
    job = Slow(None, tmp_path, "none:run", ["never"], 1.0)  # type: ignore[arg-type]
    with GpuAccess(lease).computing():
        other.start()
        job.wait_until_ready()
    other.join(20)
    assert measured.is_set()
