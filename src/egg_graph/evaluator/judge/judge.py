"""The judge: holds reference, expected answers, seeds, budgets and the verdict. It never imports a candidate."""

from __future__ import annotations

import gc
import secrets
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from egg_graph.evaluator.device.access import access_to
from egg_graph.evaluator.device.detect import environment
from egg_graph.evaluator.evidence.builder import EvaluationBuilder
from egg_graph.evaluator.evidence.statements import unvaried_sizes_statement, unvaried_statement
from egg_graph.evaluator.gpu.ladder import GpuLadder
from egg_graph.evaluator.gpu.memory_peaks import judge_peak
from egg_graph.evaluator.gpu.timing.baseline import PyTorchBaseline
from egg_graph.evaluator.gpu.tuned.establish import establish_tuned
from egg_graph.evaluator.gpu.tuned.kept import KeptBaselines
from egg_graph.evaluator.gpuless.job_runner import JobRunner
from egg_graph.evaluator.gpuless.kept_code import KeptCode
from egg_graph.evaluator.gpuless.ladder import GpulessLadder
from egg_graph.evaluator.gpuless.launchers import Launchers
from egg_graph.evaluator.host.deadline import Overdue, deadline
from egg_graph.evaluator.host.fork_server import ForkServer
from egg_graph.evaluator.judge.compile_ahead import compiled_ahead
from egg_graph.evaluator.judge.compile_cache import compiled_driver
from egg_graph.evaluator.judge.gpu_screening import TOGETHER, bytes_of_sweep, ready_at_once, screen_on_gpu
from egg_graph.evaluator.judge.room import Room, does_not_fit
from egg_graph.evaluator.judge.screening import screen_without_gpu
from egg_graph.evaluator.problem.case import Unevaluable
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.problem.task_cache import TaskCache
from egg_graph.evaluator.problem.unvaried import unvaried_arguments, unvaried_sizes
from egg_graph.evaluator.progress import report_progress
from egg_graph.evaluator.spending import forget_peak, spending_on, spending_so_far
from egg_graph.evaluator.tools.compiled_metrics import profile_from_compiler
from egg_graph.schema import (
    BadInput,
    Baseline,
    Candidate,
    Evaluation,
    Finding,
    FindingKind,
    InfrastructureError,
    KernelResources,
    KernelTask,
    Profile,
    StageName,
    Status,
    Trial,
    TunedBaseline,
)

PROBLEMS_PART, PROBLEMS_BYTES = 0.15, 2 << 30
"""Evict other tasks when their cases hold more than this fraction of the GPU's memory (without a GPU: these bytes)."""
FREE_PART = 0.5
"""Evict other tasks when free GPU memory falls below this fraction."""
NEVER_TRIED = "larger inputs than those of get_inputs; NaN in the inputs"
"""What is not proven of any kernel."""
REFERENCE_SECONDS = 600
"""Time limit of the reference's own runs before any candidate [s]."""
DISTURBED: frozenset[FindingKind] = frozenset({"memory_exceeded", "timeout", "crashed"})
"""Findings that another judge on the same GPU may have caused."""
DISTURBED_TRIALS: frozenset[Status] = frozenset({"out_of_memory", "timeout", "runtime_error"})
"""Outcomes of a configuration that another judge on the same GPU may have caused."""
CORRECTNESS = "correctness_"
"""Prefix of the rungs that judge answers at a shape."""
Evaluated = tuple[EvaluationBuilder, tuple[Status, str] | None]


class Judge:
    """Answer requests, one at a time.

    Args:
        settings: device, timeout, seed, profile and gpu, as `LocalEvaluator` takes them.
        folder: private to this judge.
        compiling: the fork server whose children compile, and run on a GPU.
        interpreting: the fork server whose children interpret.
        kept: folder of what is kept for later judges, if there is one.
    """

    def __init__(
        self,
        settings: dict[str, Any],
        folder: Path,
        compiling: ForkServer,
        interpreting: ForkServer,
        kept: Path | None = None,
    ) -> None:
        self.settings = settings
        self.folder = folder
        self.timeout = float(settings["timeout"])
        self.root_seed = settings["seed"] if settings["seed"] is not None else secrets.randbits(62)
        self.told = False
        """Whether the root seed was reported to the caller."""
        self.on_gpu = _use_gpu(settings["device"])
        self.environment = environment(use_gpu=self.on_gpu)
        self.kept = kept
        self.tuned: dict[str, TunedBaseline] = {}
        """Tuned PyTorch, by task."""
        self.fork_servers = (compiling, interpreting)
        pool = ThreadPoolExecutor(TOGETHER + 1 if self.on_gpu else 4)
        compiled = compiled_driver(folder, kept) if self.on_gpu else None
        jobs = JobRunner(interpreting, compiling, folder, self.timeout, compiled)
        if self.on_gpu:
            code, launchers = (KeptCode((kept or folder) / name) for name in ("candidates", "launchers"))
            jobs = replace(jobs, code=code, launchers=Launchers(compiling, folder, launchers))
        self.ladder = GpulessLadder(jobs, pool)
        self.gpu: GpuLadder | None = None
        held = PROBLEMS_PART * torch.cuda.mem_get_info()[1] if self.on_gpu else PROBLEMS_BYTES
        self.problems: TaskCache[Problem] = TaskCache(held, self._forget, self._cramped)
        self.access = access_to("gpu" if self.on_gpu else "none")
        self.room = Room(self.access if self.on_gpu else None, self._forget)
        if self.on_gpu:
            name = torch.cuda.get_device_name(0)
            self.gpu = GpuLadder(self.ladder, name, self.access, profiling=settings["profile"])
            self.environment = self.environment.model_copy(update={"gpu": name})

    def answer(self, method: str, params: dict[str, Any]) -> Any:
        """Dispatch one request; return JSON."""
        if method == "environment":
            return self.environment.model_dump(mode="json")
        if method == "release":
            return self.release()
        with judge_peak():
            return self._answer_on(KernelTask.model_validate(params["task"]), method, params)

    def _answer_on(self, task: KernelTask, method: str, params: dict[str, Any]) -> Any:
        """Answer a request about a task, and tell where its time went."""
        if method == "baseline":
            return _with_spending(self.baseline(task, tuned=bool(params.get("tuned"))))
        if method == "evaluate":
            candidate = Candidate.model_validate(params["candidate"])
            return _with_spending(self.evaluate(task, candidate, params["stage"], bool(params["finalist"])))
        if method == "screen":
            candidates = [Candidate.model_validate(c) for c in params["candidates"]]
            trials = self.screen(task, candidates)
            spent = spending_so_far().shared_by(max(1, len(trials)))
            return [trial.model_copy(update={"spent": spent}).model_dump(mode="json") for trial in trials]
        if method == "profile":
            candidate = Candidate.model_validate(params["candidate"])
            resources = tuple(KernelResources.model_validate(r) for r in params["resources"])
            profile = self.profile(task, candidate, params["stage"], resources, params["triton_share"])
            return profile.model_dump(mode="json")
        raise BadInput(f"the judge knows no method {method}")

    def _problem(self, task: KernelTask) -> Problem:
        device = torch.device("cuda" if self.on_gpu else "cpu")
        return self.problems.get_or_make(task.digest, lambda: Problem(task, self.root_seed, device))

    def _forget(self, digest: str) -> None:
        if self.gpu is not None:
            self.gpu.baselines.drop(digest)
            torch.cuda.empty_cache()

    def _cramped(self) -> bool:
        """Whether little GPU memory is free; other evaluators may hold it."""
        if not self.on_gpu:
            return False
        free, total = torch.cuda.mem_get_info()
        return free < FREE_PART * total

    def baseline(self, task: KernelTask, *, tuned: bool = False) -> Baseline:
        report_progress("runs the reference on its shapes and families of inputs")
        problem = self._problem(task)
        problem.arguments({})
        known: dict[str, Any] = {"environment": self.environment}
        try:
            surveyed = self._survey(problem)
        except torch.OutOfMemoryError as error:
            raise BadInput(f"reference: {does_not_fit(problem, error)}") from None
        if self.gpu is not None and not surveyed.unevaluable:
            report_progress("times the reference, eager and compiled")
            try:
                baseline = self._measured_baseline(self.gpu, problem)
            except Unevaluable as error:
                known["unevaluable"] = str(error)
            except torch.OutOfMemoryError as error:
                known["unevaluable"] = does_not_fit(problem, error)
            else:
                known |= {f"{name}_ms": value for name, value in baseline.milliseconds.items()}
                known["eager_fp32_ms"] = baseline.eager_fp32_ms
                if tuned:
                    known["tuned"] = self._tuned(task, surveyed.operators, baseline)
        elif tuned:
            known["tuned"] = TunedBaseline(reason=surveyed.unevaluable or "there is no GPU here")
        return surveyed.model_copy(update=known)

    def _measured_baseline(self, gpu: GpuLadder, problem: Problem) -> PyTorchBaseline:
        def measure() -> PyTorchBaseline:
            with self.access.computing():
                gpu.compiled_baseline(problem)
            with self.access.measuring(), spending_on("timing"):
                return gpu.baseline(problem)

        return self.room.work(problem, measure, nbytes=lambda plan: plan.baseline_bytes)

    def _tuned(self, task: KernelTask, operators: tuple[str, ...], baseline: PyTorchBaseline) -> TunedBaseline:
        """Tuned PyTorch of a task, measured once; tried again where a busy GPU kept it from being measured."""
        found = self.tuned.get(task.digest)
        if found is None or found.reason:
            kept = KeptBaselines(self.kept, self.environment)
            with self.room.reserved(baseline.problem), self.access.measuring(), spending_on("timing"):
                found = self.tuned[task.digest] = establish_tuned(baseline, operators, self.folder, kept)
        return found

    def evaluate(self, task: KernelTask, candidate: Candidate, stage: StageName | None, finalist: bool) -> Evaluation:
        started = time.monotonic()
        if finalist:
            self._fresh_seed()
        report_progress("makes inputs and expected answers")
        problem = self._problem(task)
        verdict: tuple[Status, str] | None = None
        kind: FindingKind = "degenerate_problem"
        try:
            unevaluable = self._survey(problem).unevaluable
            kind = problem.validity.kind
        except BadInput as error:
            unevaluable, kind = str(error), "reference_failed"
        except torch.OutOfMemoryError as error:
            unevaluable = does_not_fit(problem, error)
        if unevaluable:
            builder = EvaluationBuilder()
            builder.fail("baseline", [Finding(kind=kind, message=unevaluable)])
        else:
            builder, verdict = self._evaluate(problem, candidate, stage, finalist)
            if self.access.crowded:
                forget_peak("candidate")  # what others took on this GPU was counted with it
            _tell_untried(problem, builder)
        if builder.profile.source == "none":
            builder.profile = profile_from_compiler(builder.resources, stage, task.target)
        self.told = True
        return builder.conclude(
            task,
            candidate,
            environment=self.environment,
            seconds=time.monotonic() - started,
            verdict=verdict,
            seed=self.root_seed,
        )

    def profile(
        self,
        task: KernelTask,
        candidate: Candidate,
        stage: StageName | None,
        resources: tuple[KernelResources, ...],
        triton_share: float | None,
    ) -> Profile:
        """A stage's metrics of a kernel that was judged before; without a GPU what follows from its resources."""
        if self.gpu is None:
            return profile_from_compiler(resources, stage, task.target)
        problem = self._problem(task)
        with self.room.reserved(problem):
            return self.gpu.profile(problem, candidate, stage, resources, triton_share)

    def screen(self, task: KernelTask, candidates: list[Candidate]) -> list[Trial]:
        problem = self._problem(task)
        if self.gpu is None:
            return screen_without_gpu(self.ladder, problem, candidates)
        gpu, plan = self.gpu, problem.memory_plan
        with compiled_ahead(self.ladder, problem, candidates) as configurations:
            capacity = ready_at_once(plan, self.access.room, len(candidates))
            return self.room.work(
                problem,
                lambda: screen_on_gpu(gpu, problem, configurations, capacity),
                nbytes=lambda plan: bytes_of_sweep(plan, capacity),
                short=lambda trials: any(trial.status in DISTURBED_TRIALS for trial in trials),
            )

    def release(self) -> None:
        """Free the GPU memory that tasks hold; the next call builds them again."""
        self.problems.clear()
        if self.gpu is not None:
            self.gpu.baselines.clear()
            gc.collect()
            self.access.give_back()

    def _evaluate(self, problem: Problem, candidate: Candidate, stage: StageName | None, finalist: bool) -> Evaluated:
        """Evaluate again, alone and on clean workers, what the machine or a neighbour may have spoiled.

        A fault of the machine in the second evaluation is reported as that.
        """
        self.access.waited = 0.0
        builder, verdict = self.room.work(
            problem,
            lambda: self._evaluate_once(problem, candidate, stage, finalist),
            in_parts=True,
            short=lambda evaluated: bool(evaluated[0].short_of_memory),
        )
        if not (spoilt := self._spoilt(builder)):
            return builder, verdict
        for fork_server in self.fork_servers:
            fork_server.stop()
        with self.access.alone_throughout():
            builder, verdict = self._evaluate_once(problem, candidate, stage, finalist)
        if _machine_faults(builder):
            builder.findings.sort(key=lambda finding: finding.kind != "infrastructure")  # nothing else is to be blamed
        else:
            builder.passed("clean_workers", f"evaluated twice, for the machine spoilt the first time: {spoilt[0]}")
        return builder, verdict

    def _spoilt(self, builder: EvaluationBuilder) -> list[str]:
        """What the machine, or others on its GPU, may have spoilt."""
        spoilt = [finding.message for finding in _machine_faults(builder)]
        if self.access.crowded:
            spoilt += [finding.message for finding in builder.findings if finding.kind in DISTURBED]
        return spoilt

    def _evaluate_once(
        self, problem: Problem, candidate: Candidate, stage: StageName | None, finalist: bool
    ) -> Evaluated:
        try:
            if self.gpu is None:
                return self.ladder.evaluate(problem, candidate), None
            builder, verdict = self.gpu.evaluate(problem, candidate, stage, finalist)
        except InfrastructureError as error:
            builder = EvaluationBuilder()
            builder.fail("machine", [Finding(kind="infrastructure", message=str(error))])
            return builder, None
        if builder.timing is not None and self.access.waited > 1.0:
            notes = (*builder.timing.notes, f"waited {self.access.waited:.0f} s in all for others on this GPU")
            builder.timing = builder.timing.model_copy(update={"notes": notes})
        return builder, verdict

    def _survey(self, problem: Problem) -> Baseline:
        """The survey of the reference; made in reserved memory when it is first asked for. Raises as `_surveyed`."""
        if problem.is_surveyed:
            return problem.untimed_baseline
        with spending_on("correctness"), _reference_in_time():
            _ = problem.shapes  # found without a GPU, and so before its memory is reserved
        return self.room.work(problem, lambda: self._surveyed(problem), nbytes=lambda plan: plan.baseline_bytes)

    def _surveyed(self, problem: Problem) -> Baseline:
        """Survey the reference before any candidate, within `REFERENCE_SECONDS`.

        Raises:
            BadInput: if the reference does not run, or not in time.
        """
        with _reference_in_time(), self.access.computing(), spending_on("correctness"):
            return problem.untimed_baseline

    def _fresh_seed(self) -> None:
        """Draw a root seed that was never reported, for a finalist; a seed that was given stays."""
        if self.settings["seed"] is None and self.told:
            self.root_seed, self.told = secrets.randbits(62), False
            self.release()


@contextmanager
def _reference_in_time() -> Iterator[None]:
    """Limit the reference's own runs in the block to `REFERENCE_SECONDS`.

    Raises:
        BadInput: if they are not done by then.
    """
    try:
        with deadline(REFERENCE_SECONDS):
            yield
    except Overdue:
        raise BadInput(f"reference: its own runs were not done within {REFERENCE_SECONDS} s") from None


def _with_spending(answer: Baseline | Evaluation) -> dict[str, Any]:
    """The answer as JSON, with where its time went."""
    return answer.model_copy(update={"spent": spending_so_far()}).model_dump(mode="json")


def _tell_untried(problem: Problem, builder: EvaluationBuilder) -> None:
    """Say of a kernel that nothing speaks against which arguments, sizes and inputs it was not tried with."""
    if builder.failed:
        return
    passed = [rung.name for rung in builder.rungs if rung.outcome == "passed"]
    shapes = [name.removeprefix(CORRECTNESS) for name in passed if name.startswith(CORRECTNESS)]
    judged = [problem.overrides(shape) for shape in shapes]
    if arguments := unvaried_arguments(problem.task.reference, judged):
        builder.skipped("constructor_arguments", unvaried_statement(arguments))
    if sizes := unvaried_sizes(problem.task.reference, judged):
        builder.skipped("input_sizes", unvaried_sizes_statement(sizes))
    builder.skipped("inputs_never_tried", NEVER_TRIED)


def _machine_faults(builder: EvaluationBuilder) -> list[Finding]:
    return [finding for finding in builder.findings if finding.kind == "infrastructure"]


def _use_gpu(device: str) -> bool:
    if device == "none":
        return False
    if torch.cuda.is_available():
        return True
    if device == "gpu":
        raise InfrastructureError('there is no GPU that PyTorch can use here; take device="none"')
    return False
