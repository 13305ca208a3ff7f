"""Timing by itself on a GPU: a fork server, one worker per candidate, and PyTorch eager as the baseline."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch

from egg_graph.evaluator.gpu.timing.baseline import PyTorchBaseline
from egg_graph.evaluator.gpu.timing.measurement import TimingResult, time_candidate
from egg_graph.evaluator.gpu.worker_session import WorkerSession
from egg_graph.evaluator.host.fork_server import ForkServer
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.schema import Hardware, KernelTask


class Ground:
    """Everything but the candidate, kept from one measurement to the next."""

    def __init__(self, hardware: Hardware, without: tuple[str, ...] = ()) -> None:
        self.hardware = hardware
        self.folder = Path(tempfile.mkdtemp(prefix="timing-"))
        self.fork_server = ForkServer(
            interpret=False, folder=self.folder, warm=("egg_graph.evaluator.worker.gpu_worker",), without=without
        )
        self.fork_server.start()
        self.tasks: dict[str, tuple[Problem, Any]] = {}
        self.count = 0

    def baseline(self, reference: str) -> tuple[Problem, PyTorchBaseline]:
        if reference not in self.tasks:
            self.tasks.clear()
            torch.cuda.empty_cache()
            task = KernelTask(name="timing", reference=reference, target=self.hardware, precision="ieee")
            problem = Problem(task, 20261121, torch.device("cuda"))
            self.tasks[reference] = problem, EagerOnly(problem).measure()
        return self.tasks[reference]

    def time(self, source: str, reference: str) -> TimingResult:
        """Time one candidate; raises `CandidateFailed` as the ladder would see it."""
        problem, baseline = self.baseline(reference)
        self.count += 1
        folder = self.folder / str(self.count)
        folder.mkdir()
        (folder / "candidate.py").write_text(source)
        session = WorkerSession(self.fork_server, folder, 60.0)
        try:
            session.start(0.6)
            return time_candidate(session, problem, baseline, torch.cuda.get_device_name(0))
        finally:
            session.close()

    def close(self) -> None:
        self.tasks.clear()
        self.fork_server.stop()


class EagerOnly(PyTorchBaseline):
    """A baseline without torch.compile, which would take longer than all measurements."""

    def _compiled(self, model: torch.nn.Module) -> None:
        return None
