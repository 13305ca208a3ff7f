"""The ladder on a GPU: correctness on small and full shapes, what was compiled, and timing against PyTorch.

Candidate and judge are two processes on one GPU; inputs and results lie in memory that the judge owns. Beside them,
without a GPU and without costing time, one forward at full shape runs in the interpreter for the lower bound.
"""

from __future__ import annotations

import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from egg_graph.evaluator import gpu_answers, gpu_profile, gpu_timing
from egg_graph.evaluator.aot.occupancy import occupancy
from egg_graph.evaluator.docket import Docket
from egg_graph.evaluator.evidence import OWN_INPUTS, Climb, stopwatch
from egg_graph.evaluator.gpu_session import CandidateFailed, Session
from egg_graph.evaluator.ladder import Ladder
from egg_graph.evaluator.opponent import Opponent
from egg_graph.evaluator.problem import Unevaluable
from egg_graph.evaluator.statements import compile_statement, no_launch, spills
from egg_graph.evaluator.verdict import reason_of, rejecting
from egg_graph.schema import (
    Candidate,
    Check,
    Finding,
    FindingKind,
    InfrastructureError,
    KernelResources,
    KernelTask,
    StageName,
    Status,
)

MEMORY_FRACTION = 0.6
"""Of the GPU's memory that a candidate may take."""
FAKE_BUDGET, FAKE_SECONDS = 1.0, 20.0
"""Seconds that the interpreter may take for the lower bound: per launch, after the first two programs, and in all."""
PROVEN_BY_FAKES: frozenset[FindingKind] = frozenset({"out_of_bounds", "library_call"})
"""What the interpreter's word rejects even where the GPU's answer is right."""
Verdict = tuple[Status, str]


@dataclass
class GpuLadder:
    """The tools of the ladder on a GPU."""

    base: Ladder
    machine: str
    profiling: bool = False
    opponents: dict[str, Opponent] = field(default_factory=dict)
    """Of the latest task alone: its tensors are large."""
    best_ms: dict[str, float] = field(default_factory=dict)
    """By task, the fastest kernel so far; only a faster one is worth a profile."""

    # ------------------------------------------------------------------------------------------ the whole climb

    def climb(self, docket: Docket, candidate: Candidate, stage: StageName | None) -> tuple[Climb, Verdict | None]:
        """All rungs, and the verdict of a kernel that passes them."""
        climb = Climb()
        if not self.base.gate(candidate, climb):
            return climb, None
        bounding = self.base.pool.submit(self._bound, docket.task, candidate, self._fake_call(docket))
        verdict: Verdict | None = None
        with self.base.job_folder(candidate) as folder:
            session = Session(self.base.compiling, folder, self.base.timeout)
            try:
                right = self._start(session, climb) and self._correct(session, docket, climb)
                if right:
                    verdict = self._timed(session, docket, climb)
            except CandidateFailed as failure:
                climb.fail("timing", [failure.finding], log=failure.log)
            finally:
                session.close()
            if climb.failed:
                return climb, None
            self._absorb_bound(bounding, climb)
            climb.skipped("other_inputs", OWN_INPUTS)
            self._profile(docket, folder, climb, stage)
        return climb, verdict

    def open(self, candidate_folder: Path) -> Session:
        """A worker with the GPU open and nothing loaded. Raises CandidateFailed as `Session.ask`."""
        session = Session(self.base.compiling, candidate_folder, self.base.timeout)
        session.ask("start", memory_fraction=MEMORY_FRACTION)
        return session

    def _start(self, session: Session, climb: Climb) -> bool:
        try:
            with stopwatch() as took:
                session.ask("start", memory_fraction=MEMORY_FRACTION)
        except CandidateFailed as failure:
            climb.fail("process", [failure.finding], took[0], failure.log)
            return False
        climb.passed("process", f"runs in a process of its own on {self.machine}", took[0])
        return True

    def opponent(self, docket: Docket) -> Opponent:
        """The task's baseline, measured at first need."""
        key = docket.task.digest
        if key not in self.opponents:
            self.opponents.clear()
            torch.cuda.empty_cache()
            self.opponents[key] = Opponent(docket)
        return self.opponents[key]

    # ------------------------------------------------------------------------------------------------ correctness

    def _correct(self, session: Session, docket: Docket, climb: Climb) -> bool:
        """Every shape; False where the candidate fails one."""
        names = (*(name for name in docket.shapes if name != "shrunk"), "full")
        return all(self._correct_at(session, docket, name, climb) for name in names)

    def _correct_at(self, session: Session, docket: Docket, name: str, climb: Climb) -> bool:
        """One correctness rung: every seed of one shape."""
        rung = f"correctness_{name}"
        started = time.monotonic()
        checks: list[Check] = []
        against = ""
        try:
            for case in docket.full_cases() if name == "full" else docket.cases(name):
                findings, check = gpu_answers.check(session, docket, case, self.machine)
                against = case.against
                if check is not None:
                    climb.checks.append(check)
                    checks.append(check)
                if rejecting(findings):
                    climb.fail(rung, findings, time.monotonic() - started)
                    return False
        except CandidateFailed as failure:
            climb.fail(rung, [failure.finding], time.monotonic() - started, failure.log)
            return False
        except Unevaluable as problem:
            if name == "full":
                climb.fail(rung, [Finding(kind="degenerate_problem", message=str(problem))])
                return False
            climb.skipped(rung, f"not checked at {name} shape: {problem}", time.monotonic() - started)
            return True
        except torch.OutOfMemoryError as error:
            torch.cuda.empty_cache()
            climb.skipped(
                rung,
                f"not checked at {name} shape: the GPU's memory does not hold the fp64 answer ({error})",
                time.monotonic() - started,
            )
            return True
        worst = max(checks, key=lambda check: check.error / check.budget if check.budget else 0.0)
        climb.passed(
            rung,
            f"right on {len(checks)} seed{'s' if len(checks) > 1 else ''} at {name} shape on {self.machine}: "
            f"error {worst.error:.1e} of a budget of {worst.budget:.1e} against {against}; "
            "every output element written, inputs unchanged",
            time.monotonic() - started,
        )
        return True

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
        self._note_launches(race.launches, docket.task, climb)
        if rejecting(race.findings):
            climb.fail("timing", race.findings, time.monotonic() - started)
        if climb.failed or race.timing is None:
            return None
        climb.timing = race.timing
        status, reason = gpu_timing.verdict(race.timing, docket.task.precision)
        checked = "; the answer of a timed call on exchanged inputs is right" if race.check is not None else ""
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

    # ------------------------------------------------------------------------------------------------ lower bound

    def _fake_call(self, docket: Docket) -> dict[str, Any]:
        """Made in the judge's own thread: it draws inputs, and random numbers have one source."""
        return self.base.fake_call(docket, FAKE_BUDGET, min(FAKE_SECONDS, self.base.timeout))

    def _bound(self, task: KernelTask, candidate: Candidate, call: dict[str, Any]) -> Climb:
        """The full-shape run in the interpreter and the bound that follows; what fails there proves nothing."""
        found = Climb()
        run = self.base.launches(task, candidate, call, found)
        if run is not None:
            self.base.roofline(task, run, found)
            return found
        proven = [finding for finding in found.findings if finding.kind in PROVEN_BY_FAKES]
        if found.failed and not proven:
            seconds = sum(rung.seconds for rung in found.rungs)
            why = reason_of(rejecting(found.findings)[0])
            found = Climb()
            found.skipped("full_shape_launches", f"not proven at full shape: the interpreter stopped: {why}", seconds)
        found.skipped("roofline", "no lower bound: the launches at full shape are not known")
        return found

    def _absorb_bound(self, bounding: Future[Climb], climb: Climb) -> None:
        try:
            climb.absorb(bounding.result())
        except InfrastructureError as error:  # the evidence of the GPU stands without it
            climb.skipped("roofline", f"no lower bound: {error}")

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
