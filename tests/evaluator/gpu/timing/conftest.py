"""A GPU that is stood in for, down to its clock, and measurements of candidates on it."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from egg_graph.evaluator.device import interference, stream_timer
from egg_graph.evaluator.gpu import answers as gpu_answers
from egg_graph.evaluator.gpu.arena import Arena
from egg_graph.evaluator.gpu.timing import (
    baseline,
    host_times,
    input_sets,
    measurement,
    samples,
    session,
    speed,
    wrong_answers,
)
from egg_graph.evaluator.gpu.timing.agreement import Burst
from egg_graph.evaluator.gpu.timing.baseline import PyTorchBaseline
from egg_graph.evaluator.gpu.timing.measurement import TimingResult, time_candidate
from egg_graph.evaluator.gpu.timing.session import TimingSession
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.worker import gpu_worker
from egg_graph.evaluator.worker import timing as worker_timing
from egg_graph.schema import GpuState
from tests.evaluator.gpu.stand_ins import HostBuffer, InProcess, tensor_of
from tests.evaluator.gpu.timing.pretend_driver import PretendDriver, SteadyTime

LAUNCH = {
    "kernel": "k", "grid": [4], "num_warps": 4, "num_stages": 2, "registers": 32, "spills": 0, "shared": 0,
}  # fmt: skip


class Timed(InProcess):
    """A session that can be timed."""

    def blank(self) -> "Timed":
        blank = Timed(self.folder)
        blank.start(1.0)
        return blank


@pytest.fixture
def one_thread() -> Iterator[None]:
    """PyTorch computes in one thread: its products here are tiny, and several threads wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch, one_thread: None) -> None:
    """This process plays the GPU's part, and the judge's clock tells what the GPU's clock does.

    No test depends on how busy the machine is: the host's clocks are `SteadyTime`, and bursts have fixed times.
    """
    properties = SimpleNamespace(total_memory=1 << 30, L2_cache_size=1024)
    for name, value in {
        "synchronize": lambda device=None: None,
        "empty_cache": lambda: None,
        "get_device_properties": lambda device=None: properties,
        "mem_get_info": lambda device=None: (64 << 20, 64 << 20),
        "set_device": lambda device: None,
        "set_per_process_memory_fraction": lambda fraction: None,
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(gpu_answers, "Arena", lambda: Arena(HostBuffer))
    monkeypatch.setattr(gpu_worker, "poison_free_memory", lambda sizes: 0)
    monkeypatch.setattr(gpu_worker.recorder, "record_captures", lambda: None)
    record = {"launches": [LAUNCH], "share": 1.0, "total_ms": 1.0}
    monkeypatch.setattr(gpu_worker.recorder, "record_forward", lambda forward, **_: (forward(), record)[1])
    monkeypatch.setattr(gpu_worker.GpuWorker, "_tensor", tensor_of)
    monkeypatch.setattr(baseline, "CudaDriver", PretendDriver)
    monkeypatch.setattr(worker_timing, "CudaDriver", PretendDriver)
    monkeypatch.setattr(PyTorchBaseline, "_compiled", lambda self, model: None)
    monkeypatch.setattr(baseline, "measure_clock_resolution", lambda driver: 32)
    monkeypatch.setattr(PyTorchBaseline, "_time_empty_call", lambda self: 0.0)
    for module in (baseline, session, speed, worker_timing):
        monkeypatch.setattr(module, "flush_bytes", lambda: 1024)
    for module in (baseline, measurement):
        monkeypatch.setattr(module, "WARMUP_SECONDS", 0.0)
    steady = SteadyTime()
    for module in (stream_timer, host_times, input_sets, measurement, samples, wrong_answers):
        monkeypatch.setattr(module, "time", steady)
    monkeypatch.setattr(samples, "TIME_BOX_SECONDS", 0.0)
    monkeypatch.setattr(wrong_answers, "LATE_SECONDS", 0.1)
    monkeypatch.setattr(interference, "wait_until_idle", lambda driver: "")
    monkeypatch.setattr(interference, "clock_steps", lambda driver, nanoseconds: (1_000, 32))
    monkeypatch.setattr(interference, "PAUSE_SECONDS", 0.0)
    for module in (interference, measurement):
        monkeypatch.setattr(module, "read_gpu_state", lambda: GpuState(sm_clock_mhz=1980.0))
    plain, plain_baseline = TimingSession.run_burst, TimingSession.run_baseline_burst

    def run_burst(
        self: Any, session: Any, numbers: Sequence[int], *, spin_ns: int, forward: bool = True, null_ns: int = 0
    ) -> Any:
        _, told = plain(self, session, numbers, spin_ns=spin_ns, forward=forward, null_ns=null_ns)
        return Burst(len(numbers), len(numbers) * (2.0 if forward or null_ns else 1.0), -1.0), told

    def run_baseline_burst(self: Any, numbers: Sequence[int], *, spin_ns: int, forward: bool = True) -> Burst:
        plain_baseline(self, numbers, spin_ns=spin_ns, forward=forward)
        return Burst(len(numbers), len(numbers) * (2.0 if forward else 1.0), -1.0)

    monkeypatch.setattr(TimingSession, "run_burst", run_burst)
    monkeypatch.setattr(TimingSession, "run_baseline_burst", run_baseline_burst)


@pytest.fixture
def timing_of(stand_in: None, problem: Problem, tmp_path: Path) -> Callable[..., TimingResult]:
    """Times a candidate whose forward has this body; it may use `self.linear`, `x`, torch, threading and time."""

    def timed(body: str, setup: str = "") -> TimingResult:
        source = (
            "import threading\nimport time\nimport torch\nfrom torch import nn\n\nclass ModelNew(nn.Module):\n"
            "    def __init__(self, k, n):\n        super().__init__()\n        self.linear = nn.Linear(k, n)\n"
            + "".join(f"        {line}\n" for line in setup.splitlines())
            + "\n    def forward(self, x):\n"
            + "".join(f"        {line}\n" for line in body.splitlines())
        )
        (tmp_path / "candidate.py").write_text(source)
        session = Timed(tmp_path)
        session.start(0.5)
        return time_candidate(session, problem, PyTorchBaseline(problem).measure(), "stand-in")  # type: ignore[arg-type]

    return timed
