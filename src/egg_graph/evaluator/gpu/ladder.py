"""The ladder on a GPU: correctness on small and full shapes, what was compiled, and timing against PyTorch.

Candidate and judge are two processes on one GPU; inputs and results lie in memory that the judge owns. Beside them,
without a GPU and without costing time, one forward at full shape runs in the interpreter for the lower bound.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from pathlib import Path
from typing import Any

import torch

from egg_graph.evaluator.device.access import GpuAccess
from egg_graph.evaluator.evidence.builder import EvaluationBuilder, stopwatch
from egg_graph.evaluator.evidence.findings import rejecting
from egg_graph.evaluator.evidence.statements import compile_statement, no_launch, spills
from egg_graph.evaluator.gate import functions_of
from egg_graph.evaluator.gpu import integrity
from egg_graph.evaluator.gpu.arena import MemoryLimit
from egg_graph.evaluator.gpu.correctness import GpuCorrectness
from egg_graph.evaluator.gpu.interpreter_runs import InterpreterRuns, findings_at
from egg_graph.evaluator.gpu.launch_resources import launch_resources
from egg_graph.evaluator.gpu.memory_peaks import baseline_peak
from egg_graph.evaluator.gpu.profiles import Profiles
from egg_graph.evaluator.gpu.shapes_ahead import ShapesAhead
from egg_graph.evaluator.gpu.timing.baseline import PyTorchBaseline
from egg_graph.evaluator.gpu.timing.measurement import time_candidate
from egg_graph.evaluator.gpu.timing.speed import judge_speed
from egg_graph.evaluator.gpu.worker_session import CandidateFailed, WorkerSession
from egg_graph.evaluator.gpuless.ladder import GpulessLadder
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.problem.task_cache import TaskCache
from egg_graph.evaluator.protocol import Profiling
from egg_graph.evaluator.spending import spending_on
from egg_graph.evaluator.tools.profile_rung import profile_candidate, skip_profile
from egg_graph.evaluator.tools.sanitizer_rung import WaitingSanitizer, sanitize_candidate
from egg_graph.evaluator.tools.trace_rung import trace_candidate
from egg_graph.schema import (
    Candidate,
    KernelResources,
    KernelTask,
    Profile,
    StageName,
    Status,
)

MEMORY_FRACTION = 0.6
"""A candidate may take this fraction of the GPU's memory."""
BASELINES_PART = 0.05
"""Evict baselines of other tasks when they hold more than this fraction of the GPU's memory."""
Verdict = tuple[Status, str]


def _baselines() -> TaskCache[PyTorchBaseline]:
    return TaskCache(BASELINES_PART * torch.cuda.mem_get_info()[1])


@dataclass
class GpuLadder:
    """The rungs on a GPU."""

    base: GpulessLadder
    machine: str
    access: GpuAccess = field(default_factory=GpuAccess)
    profiling: InitVar[Profiling] = False
    baselines: TaskCache[PyTorchBaseline] = field(default_factory=_baselines)
    """Measured baselines, by task."""

    def __post_init__(self, profiling: Profiling) -> None:
        self.profiles = Profiles(self.base.jobs.compiling, self.access, profiling)

    # ------------------------------------------------------------------------------------------ the whole evaluation

    def evaluate(
        self, problem: Problem, candidate: Candidate, stage: StageName | None, finalist: bool = False
    ) -> tuple[EvaluationBuilder, Verdict | None]:
        """Climb all rungs; a finalist also gets repeats, a device trace and the sanitizer."""
        builder = EvaluationBuilder()
        if not self.base.gate(candidate, builder):
            return builder, None
        interpreter_runs = InterpreterRuns(self.base, problem, candidate)
        with (
            self.base.jobs.job_folder(candidate) as folder,
            self.profiles.profiler(folder, stage) as profiler,
            WaitingSanitizer(self.base.jobs.compiling, folder) as sanitizer,
        ):

            def prepare() -> None:
                self.profiles.start_ahead(profiler, problem, candidate, finalist)
                if finalist:
                    sanitizer.start(functions_of(candidate.source))

            ahead = ShapesAhead(self.base, problem, candidate, folder)
            try:
                verdict = self._on_gpu(problem, candidate, folder, builder, finalist, ahead, prepare)
            finally:
                ahead.close()
            if builder.failed:
                return builder, None
            with spending_on("correctness"):
                interpreter_runs.absorb(builder)
            if builder.failed:
                return builder, None
            if finalist:
                with self.access.at_full_shape(), spending_on("timing"):
                    self._trace(problem, folder, builder)
            self.profiles.add(profiler, problem, candidate, lambda: self.baseline(problem).case, builder, finalist)
            if finalist and not builder.failed:
                sanitize_candidate(sanitizer, self.access, problem, builder)
        return builder, verdict

    def _trace(self, problem: Problem, folder: Path, builder: EvaluationBuilder) -> None:
        """One rung for finalists: what the device runs in one forward."""
        with self.access.computing():
            case = self.compiled_baseline(problem).case
        trace_candidate(self.base.jobs.compiling, self.access, problem, case, folder, builder)

    def _on_gpu(
        self,
        problem: Problem,
        candidate: Candidate,
        folder: Path,
        builder: EvaluationBuilder,
        finalist: bool,
        ahead: ShapesAhead,
        prepare: Callable[[], None],
    ) -> Verdict | None:
        """The rungs that need the candidate's process: answers, integrity and timing.

        What needs little memory comes first; then the full shape has its memory until the candidate is timed. Between
        the two, for a candidate that was right so far, `prepare` is called.
        """
        session = self._session(folder)
        correct = GpuCorrectness(
            session,
            problem,
            builder,
            self.machine,
            lambda: self.open(folder),
            self.access,
            lambda shape: findings_at(self.base, problem, candidate, shape),
        )
        try:
            with self.access.computing(), spending_on("correctness"):
                if not self._start(session, builder):
                    return None
                with self.access.away():
                    ahead.wait_for_reduced()
                if not correct.at_reduced_shapes():
                    return None
                prepare()
            ahead.wait_for_full()
            with self.access.at_full_shape():
                return self._at_full_shape(correct, folder, finalist)
        except CandidateFailed as failure:
            builder.fail("timing", [failure.finding], log=failure.log)
            return None
        finally:
            if correct.session.has_processes:
                self._close(correct)

    def _close(self, correct: GpuCorrectness) -> None:
        """End the candidate's processes and give their memory back, while nobody measures: both take the driver's time
        on the whole GPU. They are stopped until then."""
        try:
            with correct.session.paused(), self.access.computing():
                correct.close()
                torch.cuda.empty_cache()
        finally:
            correct.close()  # where there was no turn in time

    def _at_full_shape(self, correct: GpuCorrectness, folder: Path, finalist: bool) -> Verdict | None:
        """The rungs at full shape: answers, integrity and timing."""
        problem, builder = correct.problem, correct.builder
        try:
            with self.access.computing(), spending_on("correctness"):
                if not correct.at_full_shape() or (finalist and not correct.repeats()):
                    return None
                if not self._causal(correct.session, problem, builder):
                    return None
                session = correct.living_session()
                self._prepare_timing(problem, session)
            with self.access.measuring(), spending_on("timing"):
                return self._timed(session, problem, builder, finalist)
        finally:
            self._close(correct)

    def _session(self, folder: Path) -> WorkerSession:
        return WorkerSession(self.base.jobs.compiling, folder, self.base.jobs.timeout, MemoryLimit(MEMORY_FRACTION))

    def open(self, candidate_folder: Path, *, watched: bool = True) -> WorkerSession:
        """Open a worker with the GPU open and nothing loaded. Raises CandidateFailed as `WorkerSession.ask`.

        Args:
            candidate_folder: holds `candidate.py`.
            watched: whether what it takes of the GPU's memory is looked at; not where several workers run at once.
        """
        watch = MemoryLimit(MEMORY_FRACTION) if watched else None
        session = WorkerSession(self.base.jobs.compiling, candidate_folder, self.base.jobs.timeout, watch)
        session.start(MEMORY_FRACTION)
        return session

    def _start(self, session: WorkerSession, builder: EvaluationBuilder) -> bool:
        try:
            with stopwatch() as took:
                session.start(MEMORY_FRACTION)
        except CandidateFailed as failure:
            builder.fail("process", [failure.finding], took[0], failure.log)
            return False
        builder.passed("process", f"runs in a process of its own on {self.machine}", took[0])
        return True

    def _causal(self, session: WorkerSession, problem: Problem, builder: EvaluationBuilder) -> bool:
        """One rung: whether the candidate's own kernels make the answer."""
        try:
            with next(iter(problem.full_cases())).held() as case:
                return integrity.examine(session, problem, case, self.machine, builder)
        except CandidateFailed as failure:
            builder.fail(integrity.RUNG, [failure.finding], log=failure.log)
            return False
        except torch.OutOfMemoryError as error:
            torch.cuda.empty_cache()
            builder.short_of_memory = f"the GPU's memory does not hold the full shape ({error})"
            builder.skipped(integrity.RUNG, f"not examined: {builder.short_of_memory}")
            return True

    def baseline(self, problem: Problem) -> PyTorchBaseline:
        """The task's baseline; compiled and measured when it is first needed."""
        baseline = self.compiled_baseline(problem)
        with baseline_peak(), spending_on("timing"):
            return baseline.measure()

    def compiled_baseline(self, problem: Problem) -> PyTorchBaseline:
        """The task's baseline, perhaps not measured yet: compilers work while others use the GPU."""

        def make() -> PyTorchBaseline:
            torch.cuda.empty_cache()
            with baseline_peak(), spending_on("compile"):
                return PyTorchBaseline(problem, self.access)

        return self.baselines.get_or_make(problem.task.digest, make)

    def _prepare_timing(self, problem: Problem, session: WorkerSession) -> None:
        """Compile the baseline, and start the process that its bursts without forwards need, while others use the GPU;
        where its memory does not hold them now, timing tries again."""
        try:
            if not self.compiled_baseline(problem).empty_bursts:
                session.prepare_blank()
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()

    # ----------------------------------------------------------------------------------------------------- timing

    def _timed(
        self, session: WorkerSession, problem: Problem, builder: EvaluationBuilder, finalist: bool
    ) -> Verdict | None:
        """Enter resources, share of own kernels and the timing; no speed for an answer that was never checked."""
        at_full = builder.outcome_of("correctness", shape="full")
        if at_full is not None and at_full.outcome == "skipped":
            return self._untimed(builder, at_full.statement)
        started = time.monotonic()
        try:
            baseline = self.baseline(problem)
            result = time_candidate(session, problem, baseline, self.machine, thorough=finalist)
        except torch.OutOfMemoryError as error:
            torch.cuda.empty_cache()
            builder.short_of_memory = f"the GPU's memory does not hold candidate and baseline at once ({error})"
            return self._untimed(builder, builder.short_of_memory)
        if result.check is not None:
            builder.checks.append(result.check)
        if result.skipped:
            return self._untimed(builder, result.skipped)
        self._note_launches(result.launches, problem.task, builder)
        if rejecting(result.findings):
            builder.fail("timing", result.findings, time.monotonic() - started)
        if builder.failed or result.timing is None:
            return None
        builder.timing = result.timing
        status, reason = judge_speed(result.timing, problem.task.precision)
        checked = f"; {result.timing.checked_calls} answers of timed calls are right, each on inputs of its own"
        builder.passed("timing", reason + checked, time.monotonic() - started)
        return status, reason

    def _untimed(self, builder: EvaluationBuilder, why: str) -> Verdict:
        builder.skipped("timing", f"no speed is told: {why}")
        return "correct", f"right wherever it was compared; no speed is told: {why}"

    def _note_launches(self, answer: dict[str, Any], task: KernelTask, builder: EvaluationBuilder) -> None:
        if not answer["launches"]:
            builder.fail("launches", [no_launch()])
            return
        builder.triton_share = round(float(answer["share"]), 4)
        seen = {str((r["kernel"], r["num_warps"], r["shared"], r["registers"])): r for r in answer["launches"]}
        builder.resources = tuple(launch_resources(r, task) for r in seen.values())
        builder.findings += spills(builder.resources)
        builder.passed(
            "launches",
            f"{compile_statement(builder.resources, task.target.arch)}; "
            f"{builder.triton_share:.0%} of the GPU time is its own Triton kernels",
        )

    # ---------------------------------------------------------------------------------------------------- profile

    def profile(
        self,
        problem: Problem,
        candidate: Candidate,
        stage: StageName | None,
        resources: tuple[KernelResources, ...],
        triton_share: float | None,
    ) -> Profile:
        """Take a stage's metrics of a kernel that was judged before; no verdict comes of it.

        Args:
            resources: names the candidate's kernels.
            triton_share: share of the GPU time that these take.
        """
        builder = EvaluationBuilder(resources=resources, triton_share=triton_share)
        if not self.profiles.profiling:
            skip_profile(builder, stage, problem, "profiling is off")
        elif not self.base.gate(candidate, builder):
            skip_profile(builder, stage, problem, "the static gate rejects the kernel")
        else:
            with self.base.jobs.job_folder(candidate) as folder, self.profiles.profiler(folder, stage) as profiler:
                with self.access.computing():
                    case = self.compiled_baseline(problem).case
                profile_candidate(profiler, self.access, problem, case, builder)
        return builder.profile
