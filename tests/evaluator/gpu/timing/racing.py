"""The timing rung by itself on a GPU: a nursery, a worker for each candidate, and races against PyTorch eager."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch

from egg_graph.evaluator.gpu.opponent import Opponent
from egg_graph.evaluator.gpu.session import Session
from egg_graph.evaluator.gpu.timing import Race, race
from egg_graph.evaluator.problem.docket import Docket
from egg_graph.evaluator.sandbox.nursery import Nursery
from egg_graph.schema import Hardware, KernelTask


class Ground:
    """Everything but the candidate, kept from race to race."""

    def __init__(self, hardware: Hardware, without: tuple[str, ...] = ()) -> None:
        self.hardware = hardware
        self.folder = Path(tempfile.mkdtemp(prefix="races-"))
        self.nursery = Nursery(
            interpret=False, folder=self.folder, warm=("egg_graph.evaluator.gpu.worker",), without=without
        )
        self.nursery.start()
        self.tasks: dict[str, tuple[Docket, Any]] = {}
        self.count = 0

    def opponent(self, reference: str) -> tuple[Docket, Opponent]:
        if reference not in self.tasks:
            self.tasks.clear()
            torch.cuda.empty_cache()
            task = KernelTask(name="race", reference=reference, target=self.hardware, precision="ieee")
            docket = Docket(task, 20261121, torch.device("cuda"))
            self.tasks[reference] = docket, EagerOnly(docket)
        return self.tasks[reference]

    def race(self, source: str, reference: str) -> Race:
        """One race; raises `CandidateFailed` as the ladder would see it."""
        docket, opponent = self.opponent(reference)
        self.count += 1
        folder = self.folder / str(self.count)
        folder.mkdir()
        (folder / "candidate.py").write_text(source)
        session = Session(self.nursery, folder, 60.0)
        try:
            session.start(0.6)
            return race(session, docket, opponent, torch.cuda.get_device_name(0))
        finally:
            session.close()

    def close(self) -> None:
        self.tasks.clear()
        self.nursery.stop()


class EagerOnly(Opponent):
    """Compiling the baseline takes longer than all races."""

    def _compiled(self, model: torch.nn.Module, inputs: list[Any]) -> None:
        return None
