"""A GPU that is stood in for, down to its clock, and races of candidates on it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from egg_graph.evaluator.device import state as gpu_state
from egg_graph.evaluator.gpu import answers as gpu_answers
from egg_graph.evaluator.gpu.arena import Arena
from egg_graph.evaluator.gpu.timing import baseline, measurement, session
from egg_graph.evaluator.gpu.timing.agreement import Burst
from egg_graph.evaluator.gpu.timing.baseline import PyTorchBaseline
from egg_graph.evaluator.gpu.timing.measurement import Race
from egg_graph.evaluator.gpu.timing.session import TimingSession
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.worker import gpu_worker
from egg_graph.evaluator.worker import timing as worker_timing
from egg_graph.schema import GpuState, Hardware, KernelTask
from tests.evaluator.gpu.stand_ins import REFERENCE, HostBuffer, InProcess, tensor_of
from tests.evaluator.gpu.timing.pretend_driver import PretendGpu

LAUNCH = {
    "kernel": "k", "grid": [4], "num_warps": 4, "num_stages": 2, "registers": 32, "spills": 0, "shared": 0,
}  # fmt: skip


class Timed(InProcess):
    """A session that can be timed."""

    def blank(self) -> "Timed":
        return Timed(self.folder)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """The GPU's part is played by this process, and the judge's clock tells what the GPU's does."""
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
    monkeypatch.setattr(gpu_worker.recorder, "attend", lambda: None)
    record = {"launches": [LAUNCH], "share": 1.0, "total_ms": 1.0}
    monkeypatch.setattr(gpu_worker.recorder, "watch", lambda forward: (forward(), record)[1])
    monkeypatch.setattr(gpu_worker.Worker, "_tensor", tensor_of)
    monkeypatch.setattr(baseline, "BareGpu", PretendGpu)
    monkeypatch.setattr(worker_timing, "BareGpu", PretendGpu)
    monkeypatch.setattr(PyTorchBaseline, "_compiled", lambda self, model, inputs: None)
    monkeypatch.setattr(baseline, "resolution_ns", lambda gpu: 32)
    monkeypatch.setattr(PyTorchBaseline, "_empty", lambda self: 0.0)
    for module in (baseline, session, measurement, worker_timing):
        monkeypatch.setattr(module, "flush_bytes", lambda: 1024)
    for module in (baseline, measurement):
        monkeypatch.setattr(module, "WARM_SECONDS", 0.0)
    monkeypatch.setattr(measurement, "TIME_BOX", 0.0)
    monkeypatch.setattr(measurement, "LATE_SECONDS", 0.1)
    monkeypatch.setattr(gpu_state, "busy", lambda gpu: "")
    monkeypatch.setattr(gpu_state, "_watched", lambda gpu, nanoseconds: (1_000, 32))
    monkeypatch.setattr(gpu_state, "PAUSE", 0.0)
    monkeypatch.setattr(gpu_state, "state", lambda: GpuState(sm_clock_mhz=1980.0))
    plain = TimingSession.burst

    def burst(self: Any, session: Any, numbers: Sequence[int], *, spin_ns: int, forward: bool = True) -> Any:
        _, told = plain(self, session, numbers, spin_ns=spin_ns, forward=forward)
        return Burst(len(numbers), len(numbers) * (2.0 if forward else 1.0), -1.0), told

    monkeypatch.setattr(TimingSession, "burst", burst)


@pytest.fixture
def problem(h200: Hardware) -> Problem:
    return Problem(KernelTask(name="linear", reference=REFERENCE, target=h200, precision="ieee"), 7)


@pytest.fixture
def race_of(stand_in: None, problem: Problem, tmp_path: Path) -> Callable[..., Race]:
    """The race of a candidate whose forward has this body; `self.linear`, `x`, torch, threading and time are at
    hand."""

    def raced(body: str, setup: str = "") -> Race:
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
        return measurement.race(session, problem, PyTorchBaseline(problem), "stand-in")  # type: ignore[arg-type]

    return raced
