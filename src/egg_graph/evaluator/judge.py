"""The judge: holds reference, expected answers, seeds, budgets and the verdict. It never imports a candidate."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from egg_graph.evaluator.detect import environment
from egg_graph.evaluator.docket import Docket
from egg_graph.evaluator.evidence import Climb
from egg_graph.evaluator.gpu_ladder import GpuLadder
from egg_graph.evaluator.ladder import Ladder
from egg_graph.evaluator.nursery import Nursery
from egg_graph.evaluator.problem import Unevaluable
from egg_graph.evaluator.profile import compiled_profile
from egg_graph.evaluator.screen import TOGETHER, screen_on_gpu, screen_without_gpu
from egg_graph.schema import (
    BadInput,
    Baseline,
    Candidate,
    Evaluation,
    Finding,
    FindingKind,
    InfrastructureError,
    KernelTask,
    StageName,
    Status,
    Trial,
)


class Judge:
    """Answers requests, one at a time.

    Args:
        settings: device, timeout, seed and profile, as `LocalEvaluator` takes them.
        folder: private to this judge.
        compiling: the nursery whose children compile, and run on a GPU.
        interpreting: the nursery whose children interpret.
    """

    def __init__(self, settings: dict[str, Any], folder: Path, compiling: Nursery, interpreting: Nursery) -> None:
        self.settings = settings
        self.timeout = float(settings["timeout"])
        self.root_seed = settings["seed"] if settings["seed"] is not None else secrets.randbits(62)
        self.dockets: dict[str, Docket] = {}
        self.on_gpu = _use_gpu(settings["device"])
        self.environment = environment(use_gpu=self.on_gpu)
        pool = ThreadPoolExecutor(TOGETHER + 1 if self.on_gpu else 4)
        compiled = compiled_driver(folder) if self.on_gpu else None
        self.ladder = Ladder(interpreting, compiling, folder, self.timeout, pool, compiled)
        self.gpu: GpuLadder | None = None
        if self.on_gpu:
            self.gpu = GpuLadder(self.ladder, torch.cuda.get_device_name(0), profiling=bool(settings["profile"]))

    def answer(self, method: str, params: dict[str, Any]) -> Any:
        """Dispatch one request; the result is JSON."""
        if method == "environment":
            return self.environment.model_dump(mode="json")
        task = KernelTask.model_validate(params["task"])
        if method == "baseline":
            return self.baseline(task).model_dump(mode="json")
        if method == "evaluate":
            candidate = Candidate.model_validate(params["candidate"])
            return self.evaluate(task, candidate, params["stage"], bool(params["finalist"])).model_dump(mode="json")
        if method == "screen":
            candidates = [Candidate.model_validate(c) for c in params["candidates"]]
            return [trial.model_dump(mode="json") for trial in self.screen(task, candidates)]
        raise BadInput(f"the judge knows no method {method}")

    def docket(self, task: KernelTask) -> Docket:
        """The task's docket, opened at first sight."""
        if task.digest not in self.dockets:
            self.dockets[task.digest] = Docket(task, self.root_seed, torch.device("cuda" if self.on_gpu else "cpu"))
        return self.dockets[task.digest]

    def baseline(self, task: KernelTask) -> Baseline:
        docket = self.docket(task)
        docket.arguments({})
        known: dict[str, Any] = {"environment": self.environment}
        if self.gpu is not None and not docket.surveyed.unevaluable:
            try:
                opponent = self.gpu.opponent(docket)
            except Unevaluable as problem:
                known["unevaluable"] = str(problem)
            else:
                known |= {f"{name}_ms": value for name, value in opponent.milliseconds.items()}
                known["eager_fp32_ms"] = opponent.eager_fp32_ms
        return docket.surveyed.model_copy(update=known)

    def evaluate(self, task: KernelTask, candidate: Candidate, stage: StageName | None, finalist: bool) -> Evaluation:
        started = time.monotonic()
        docket = self.docket(task)
        verdict: tuple[Status, str] | None = None
        kind: FindingKind = "degenerate_problem"
        try:
            unevaluable = docket.surveyed.unevaluable
        except BadInput as error:
            unevaluable, kind = str(error), "reference_failed"
        if unevaluable:
            climb = Climb()
            climb.fail("baseline", [Finding(kind=kind, message=unevaluable)])
        else:
            climb, verdict = self._climb(docket, candidate, stage)
        if climb.profile.source == "none":
            climb.profile = compiled_profile(climb.resources, stage)
        return climb.conclude(
            task, candidate, environment=self.environment, seconds=time.monotonic() - started, verdict=verdict
        )

    def _climb(
        self, docket: Docket, candidate: Candidate, stage: StageName | None
    ) -> tuple[Climb, tuple[Status, str] | None]:
        if self.gpu is not None:
            return self.gpu.climb(docket, candidate, stage)
        return self.ladder.climb(docket, candidate), None

    def screen(self, task: KernelTask, candidates: list[Candidate]) -> list[Trial]:
        if self.gpu is not None:
            return screen_on_gpu(self.gpu, self.docket(task), candidates)
        return screen_without_gpu(self.ladder, self.docket(task), candidates)


def compiled_driver(folder: Path) -> Path | None:
    """Triton's driver module, compiled (or found) once, as a cache to start every worker with: a C compiler takes
    seconds. None where Triton kept nothing."""
    from triton.runtime import driver

    _ = driver.active.utils  # compiles it into this process's own cache, which holds nothing else yet
    cache, copy = Path(os.environ["TRITON_CACHE_DIR"]), folder / "driver"
    if not cache.is_dir():
        return None
    shutil.copytree(cache, copy)
    return copy


def _use_gpu(device: str) -> bool:
    if device == "none":
        return False
    if torch.cuda.is_available():
        return True
    if device == "gpu":
        raise InfrastructureError('there is no GPU that PyTorch can use here; take device="none"')
    return False
