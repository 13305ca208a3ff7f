"""The judge: holds reference, expected answers, seeds, budgets and the verdict. It never imports a candidate."""

from __future__ import annotations

import gc
import os
import secrets
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from egg_graph.evaluator.host.deadline import Overdue, deadline
from egg_graph.evaluator.device.detect import environment
from egg_graph.evaluator.evidence.builder import Climb
from egg_graph.evaluator.gpu.ladder import GpuLadder
from egg_graph.evaluator.gpuless.ladder import Ladder
from egg_graph.evaluator.problem.task_cache import Kept
from egg_graph.evaluator.problem.case import Unevaluable
from egg_graph.evaluator.problem.problem import Docket
from egg_graph.evaluator.host.fork_server import Nursery
from egg_graph.evaluator.judge.screening import TOGETHER, screen_on_gpu, screen_without_gpu
from egg_graph.evaluator.tools.profile import compiled_profile
from egg_graph.evaluator.device.turns import turns_on
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

DOCKETS_PART, DOCKETS_BYTES = 0.15, 2 << 30
"""What the cases of other tasks may hold when a new one comes: of the GPU's memory, and without one."""
FREE_PART = 0.5
"""Of the GPU's memory; while less is free, no other task is kept when a new one comes."""
REFERENCE_SECONDS = 600
"""For the reference's own runs before any candidate's."""
DISTURBED: frozenset[FindingKind] = frozenset({"memory_exceeded", "timeout", "crashed"})
"""What may be a neighbour's doing where several judges share a GPU."""
Climbed = tuple[Climb, tuple[Status, str] | None]


class Judge:
    """Answers requests, one at a time.

    Args:
        settings: device, timeout, seed, profile and gpu, as `LocalEvaluator` takes them.
        folder: private to this judge.
        compiling: the nursery whose children compile, and run on a GPU.
        interpreting: the nursery whose children interpret.
    """

    def __init__(self, settings: dict[str, Any], folder: Path, compiling: Nursery, interpreting: Nursery) -> None:
        self.settings = settings
        self.timeout = float(settings["timeout"])
        self.root_seed = settings["seed"] if settings["seed"] is not None else secrets.randbits(62)
        self.told = False
        """Whether the root seed has left this process."""
        self.on_gpu = _use_gpu(settings["device"])
        self.environment = environment(use_gpu=self.on_gpu)
        self.nurseries = (compiling, interpreting)
        pool = ThreadPoolExecutor(TOGETHER + 1 if self.on_gpu else 4)
        compiled = compiled_driver(folder) if self.on_gpu else None
        self.ladder = Ladder(interpreting, compiling, folder, self.timeout, pool, compiled)
        self.gpu: GpuLadder | None = None
        held = DOCKETS_PART * torch.cuda.mem_get_info()[1] if self.on_gpu else DOCKETS_BYTES
        self.dockets: Kept[Docket] = Kept(held, self._forget, self._cramped)
        self.turns = turns_on("gpu" if self.on_gpu else "none")
        if self.on_gpu:
            name = torch.cuda.get_device_name(0)
            self.gpu = GpuLadder(self.ladder, name, self.turns, profiling=bool(settings["profile"]))
            self.environment = self.environment.model_copy(update={"gpu": name})

    def answer(self, method: str, params: dict[str, Any]) -> Any:
        """Dispatch one request; the result is JSON."""
        if method == "environment":
            return self.environment.model_dump(mode="json")
        if method == "release":
            return self.release()
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

    def _docket(self, task: KernelTask) -> Docket:
        device = torch.device("cuda" if self.on_gpu else "cpu")
        return self.dockets.of(task.digest, lambda: Docket(task, self.root_seed, device))

    def _forget(self, digest: str) -> None:
        if self.gpu is not None:
            self.gpu.opponents.drop(digest)
            torch.cuda.empty_cache()

    def _cramped(self) -> bool:
        """Several evaluators may share a GPU, each with tasks that it keeps."""
        if not self.on_gpu:
            return False
        free, total = torch.cuda.mem_get_info()
        return free < FREE_PART * total

    def baseline(self, task: KernelTask) -> Baseline:
        docket = self._docket(task)
        docket.arguments({})
        known: dict[str, Any] = {"environment": self.environment}
        with self.turns.computing():
            surveyed = self._surveyed(docket)
        if self.gpu is not None and not surveyed.unevaluable:
            try:
                with self.turns.measuring():
                    opponent = self.gpu.opponent(docket)
            except Unevaluable as problem:
                known["unevaluable"] = str(problem)
            else:
                known |= {f"{name}_ms": value for name, value in opponent.milliseconds.items()}
                known["eager_fp32_ms"] = opponent.eager_fp32_ms
        return surveyed.model_copy(update=known)

    def evaluate(self, task: KernelTask, candidate: Candidate, stage: StageName | None, finalist: bool) -> Evaluation:
        started = time.monotonic()
        if finalist:
            self._fresh_seed()
        docket = self._docket(task)
        verdict: tuple[Status, str] | None = None
        kind: FindingKind = "degenerate_problem"
        try:
            with self.turns.computing():
                unevaluable = self._surveyed(docket).unevaluable
                kind = docket.soundness.kind
        except BadInput as error:
            unevaluable, kind = str(error), "reference_failed"
        if unevaluable:
            climb = Climb()
            climb.fail("baseline", [Finding(kind=kind, message=unevaluable)])
        else:
            climb, verdict = self._climb(docket, candidate, stage, finalist)
        if climb.profile.source == "none":
            climb.profile = compiled_profile(climb.resources, stage)
        self.told = True
        return climb.conclude(
            task,
            candidate,
            environment=self.environment,
            seconds=time.monotonic() - started,
            verdict=verdict,
            seed=self.root_seed,
        )

    def screen(self, task: KernelTask, candidates: list[Candidate]) -> list[Trial]:
        if self.gpu is None:
            return screen_without_gpu(self.ladder, self._docket(task), candidates)
        with self.turns.alone_throughout():
            return screen_on_gpu(self.gpu, self._docket(task), candidates)

    def release(self) -> None:
        """Give back the GPU memory that tasks hold; the next call establishes them anew."""
        self.dockets.clear()
        if self.gpu is not None:
            self.gpu.opponents.clear()
            gc.collect()
            torch.cuda.empty_cache()

    # ------------------------------------------------------------------------------------------- one climb, at most two

    def _climb(self, docket: Docket, candidate: Candidate, stage: StageName | None, finalist: bool) -> Climbed:
        """A climb that the machine or a neighbour may have spoiled is made once more, alone and on clean workers; a
        second time the machine's fault is told as that."""
        self.turns.waited, self.turns.crowded = 0.0, False
        climb, verdict = self._climb_once(docket, candidate, stage, finalist)
        disturbed = [f for f in climb.findings if f.kind in DISTURBED] if self.turns.crowded else []
        if not (spoilt := [*_machine_faults(climb), *disturbed]):
            return climb, verdict
        for nursery in self.nurseries:
            nursery.stop()
        with self.turns.alone_throughout():
            climb, verdict = self._climb_once(docket, candidate, stage, finalist)
        if _machine_faults(climb):
            climb.findings.sort(key=lambda finding: finding.kind != "infrastructure")  # nothing else is to be blamed
        else:
            climb.passed(
                "clean_workers", f"evaluated twice, for the machine spoilt the first time: {spoilt[0].message}"
            )
        return climb, verdict

    def _climb_once(self, docket: Docket, candidate: Candidate, stage: StageName | None, finalist: bool) -> Climbed:
        try:
            if self.gpu is None:
                return self.ladder.climb(docket, candidate), None
            climb, verdict = self.gpu.climb(docket, candidate, stage, finalist)
        except InfrastructureError as error:
            climb = Climb()
            climb.fail("machine", [Finding(kind="infrastructure", message=str(error))])
            return climb, None
        if climb.timing is not None and self.turns.waited > 1.0:
            notes = (*climb.timing.notes, f"waited {self.turns.waited:.0f} s in all for others on this GPU")
            climb.timing = climb.timing.model_copy(update={"notes": notes})
        return climb, verdict

    def _surveyed(self, docket: Docket) -> Baseline:
        """What is established about the reference before any candidate, in bounded time.

        Raises:
            BadInput: if the reference does not run, or not in time.
        """
        try:
            with deadline(REFERENCE_SECONDS):
                return docket.surveyed
        except Overdue:
            raise BadInput(f"reference: its own runs were not done within {REFERENCE_SECONDS} s") from None

    def _fresh_seed(self) -> None:
        """A finalist's inputs come from a seed that was never told; a seed that was given stays."""
        if self.settings["seed"] is None and self.told:
            self.root_seed, self.told = secrets.randbits(62), False
            self.release()


def _machine_faults(climb: Climb) -> list[Finding]:
    return [finding for finding in climb.findings if finding.kind == "infrastructure"]


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
