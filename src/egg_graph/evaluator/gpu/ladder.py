"""The ladder on a GPU: correctness on small and full shapes, what was compiled, and timing against PyTorch.

Candidate and judge are two processes on one GPU; inputs and results lie in memory that the judge owns. Beside them,
without a GPU and without costing time, one forward at full shape runs in the interpreter for the lower bound.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from egg_graph.evaluator.aot.occupancy import occupancy
from egg_graph.evaluator.evidence.builder import Climb, stopwatch
from egg_graph.evaluator.gpu import bound as gpu_bound
from egg_graph.evaluator.gpu import integrity as gpu_integrity
from egg_graph.evaluator.gpu.timing import race as gpu_timing
from egg_graph.evaluator.gpu.correctness import Correctness
from egg_graph.evaluator.gpu.timing.baseline import Opponent
from egg_graph.evaluator.gpu.worker_session import CandidateFailed, Session
from egg_graph.evaluator.gpu.memory_watch import MemoryWatch
from egg_graph.evaluator.gpuless.ladder import Ladder
from egg_graph.evaluator.problem.task_cache import Kept
from egg_graph.evaluator.problem.problem import Docket
from egg_graph.evaluator.evidence.statements import compile_statement, no_launch, spills
from egg_graph.evaluator.tools import profiling as gpu_profile
from egg_graph.evaluator.tools.sanitize import sanitize
from egg_graph.evaluator.tools.trace import trace
from egg_graph.evaluator.device.turns import Turns
from egg_graph.evaluator.evidence.findings import rejecting
from egg_graph.schema import (
    Candidate,
    KernelResources,
    KernelTask,
    StageName,
    Status,
)

MEMORY_FRACTION = 0.6
"""Of the GPU's memory that a candidate may take."""
OPPONENTS_PART = 0.05
"""Of the GPU's memory that baselines of other tasks may take when another one comes."""
Verdict = tuple[Status, str]


def _opponents() -> Kept[Opponent]:
    return Kept(OPPONENTS_PART * torch.cuda.mem_get_info()[1])


@dataclass
class GpuLadder:
    """The tools of the ladder on a GPU."""

    base: Ladder
    machine: str
    turns: Turns = field(default_factory=Turns)
    profiling: bool = False
    opponents: Kept[Opponent] = field(default_factory=_opponents)
    """By task; as many as `OPPONENTS_PART` of the memory holds."""
    best_ms: dict[str, float] = field(default_factory=dict)
    """By task, the fastest kernel so far; only a faster one is worth a profile."""

    # ------------------------------------------------------------------------------------------ the whole climb

    def climb(
        self, docket: Docket, candidate: Candidate, stage: StageName | None, finalist: bool = False
    ) -> tuple[Climb, Verdict | None]:
        """All rungs, and the verdict of a kernel that passes them; a finalist's have repeats and a sanitizer."""
        climb = Climb()
        if not self.base.gate(candidate, climb):
            return climb, None
        bounding = gpu_bound.Bounding(self.base, docket, candidate)
        with self.base.job_folder(candidate) as folder:
            verdict = self._on_gpu(docket, folder, climb, finalist)
            if climb.failed:
                return climb, None
            bounding.absorb(climb)
            if climb.failed:
                return climb, None
            with self.turns.measuring():
                if finalist:
                    trace(self.base.compiling, docket, self.opponent(docket).case, folder, climb)
                self._profile(docket, folder, climb, stage)
            if finalist and not climb.failed:
                with self.turns.computing():
                    sanitize(self.base.compiling, docket, docket.cases("shrunk")[0], folder, climb)
        return climb, verdict

    def _on_gpu(self, docket: Docket, folder: Path, climb: Climb, finalist: bool) -> Verdict | None:
        """What needs the candidate's process: answers, how they come about, and their time."""
        session = self._session(folder)
        try:
            with self.turns.computing():
                if not self._right(session, docket, folder, climb, finalist):
                    return None
                if not session.alive:
                    session = self.open(folder)
            with self.turns.measuring():
                return self._timed(session, docket, climb)
        except CandidateFailed as failure:
            climb.fail("timing", [failure.finding], log=failure.log)
            return None
        finally:
            session.close()

    def _right(self, session: Session, docket: Docket, folder: Path, climb: Climb, finalist: bool) -> bool:
        """Every rung about answers; the session may have ended even where they are right."""
        if not self._start(session, climb):
            return False
        correct = Correctness(session, docket, climb, self.machine, lambda: self.open(folder))
        if not correct.every_shape() or (finalist and not correct.repeats()):
            return False
        return self._causal(session, docket, climb)

    def _session(self, folder: Path) -> Session:
        return Session(self.base.compiling, folder, self.base.timeout, MemoryWatch(MEMORY_FRACTION))

    def open(self, candidate_folder: Path, *, watched: bool = True) -> Session:
        """A worker with the GPU open and nothing loaded. Raises CandidateFailed as `Session.ask`.

        Args:
            candidate_folder: holds `candidate.py`.
            watched: whether what it takes of the GPU's memory is looked at; not where several workers run at once.
        """
        watch = MemoryWatch(MEMORY_FRACTION) if watched else None
        session = Session(self.base.compiling, candidate_folder, self.base.timeout, watch)
        session.start(MEMORY_FRACTION)
        return session

    def _start(self, session: Session, climb: Climb) -> bool:
        try:
            with stopwatch() as took:
                session.start(MEMORY_FRACTION)
        except CandidateFailed as failure:
            climb.fail("process", [failure.finding], took[0], failure.log)
            return False
        climb.passed("process", f"runs in a process of its own on {self.machine}", took[0])
        return True

    def _causal(self, session: Session, docket: Docket, climb: Climb) -> bool:
        """Whether the candidate's own kernels make the answer."""
        try:
            return gpu_integrity.examine(session, docket, next(iter(docket.full_cases())), self.machine, climb)
        except CandidateFailed as failure:
            climb.fail(gpu_integrity.RUNG, [failure.finding], log=failure.log)
            return False
        except torch.OutOfMemoryError as error:
            torch.cuda.empty_cache()
            climb.skipped(gpu_integrity.RUNG, f"not examined: the GPU's memory does not hold the full shape ({error})")
            return True

    def opponent(self, docket: Docket) -> Opponent:
        """The task's baseline, measured at first need."""

        def make() -> Opponent:
            torch.cuda.empty_cache()
            return Opponent(docket)

        return self.opponents.of(docket.task.digest, make)

    # ----------------------------------------------------------------------------------------------------- timing

    def _timed(self, session: Session, docket: Docket, climb: Climb) -> Verdict | None:
        """Resources, share of own kernels, and the paired timing; no verdict on speed for an answer never checked."""
        unchecked = [r for r in climb.rungs if r.name == "correctness_full" and r.outcome == "skipped"]
        if unchecked:
            return self._untimed(climb, unchecked[0].statement)
        started = time.monotonic()
        try:
            opponent = self.opponent(docket)
            race = gpu_timing.race(session, docket, opponent, self.machine)
        except torch.OutOfMemoryError as error:
            torch.cuda.empty_cache()
            return self._untimed(climb, f"the GPU's memory does not hold candidate and baseline at once ({error})")
        if race.check is not None:
            climb.checks.append(race.check)
        if race.skipped:
            return self._untimed(climb, race.skipped)
        self._note_launches(race.launches, docket.task, climb)
        if rejecting(race.findings):
            climb.fail("timing", race.findings, time.monotonic() - started)
        if climb.failed or race.timing is None:
            return None
        climb.timing = race.timing
        status, reason = gpu_timing.verdict(race.timing, docket.task.precision)
        checked = f"; {race.timing.checked_calls} answers of timed calls are right, each on inputs of its own"
        climb.passed("timing", reason + checked, time.monotonic() - started)
        return status, reason

    def _untimed(self, climb: Climb, why: str) -> Verdict:
        climb.skipped("timing", f"no speed is told: {why}")
        return "correct", f"right wherever it was compared; no speed is told: {why}"

    def _note_launches(self, answer: dict[str, Any], task: KernelTask, climb: Climb) -> None:
        if not answer["launches"]:
            climb.fail("launches", [no_launch()])
            return
        climb.triton_share = round(float(answer["share"]), 4)
        seen = {str((r["kernel"], r["num_warps"], r["shared"], r["registers"])): r for r in answer["launches"]}
        climb.resources = tuple(_resources(r, task) for r in seen.values())
        climb.findings += spills(climb.resources)
        climb.passed(
            "launches",
            f"{compile_statement(climb.resources, task.target.arch)}; "
            f"{climb.triton_share:.0%} of the GPU time is its own Triton kernels",
        )

    # ---------------------------------------------------------------------------------------------------- profile

    def _profile(self, docket: Docket, folder: Path, climb: Climb, stage: StageName | None) -> None:
        """Of a kernel that is faster than any before it."""
        if not self.profiling or climb.failed or climb.timing is None:
            return
        milliseconds, digest = climb.timing.candidate_ms, docket.task.digest
        if milliseconds >= self.best_ms.get(digest, float("inf")):
            gpu_profile.not_profiled(climb, stage, "an earlier kernel of this task is faster")
            return
        self.best_ms[digest] = milliseconds
        gpu_profile.profile(self.base.compiling, docket, self.opponent(docket).case, folder, climb, stage)


def _resources(entry: dict[str, Any], task: KernelTask) -> KernelResources:
    grid = tuple(int(n) for n in entry["grid"])
    shared, registers = int(entry["shared"]), entry["registers"]
    return KernelResources(
        kernel=str(entry["kernel"]),
        target=task.target.arch,
        grid=grid,
        num_warps=int(entry["num_warps"]),
        num_stages=int(entry["num_stages"]),
        registers=registers,
        spill_bytes=4 * int(entry["spills"] or 0),
        shared_bytes=shared,
        shared_limit=int(task.target.figure("shared_memory_per_block")),
        occupancy=occupancy(task.target, warps=int(entry["num_warps"]), registers=int(registers), shared=shared)
        if registers
        else None,
    )
