"""The ladder without a GPU: what can be proven about a candidate without running it on one.

Right answers on reduced shapes in the guarded interpreter; access in bounds at full shape; compilation for the target;
a lower bound on time. Never a speed.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from egg_graph.evaluator import gate
from egg_graph.evaluator.evidence.builder import NO_SPEED, NOT_AT_FULL_SHAPE, EvaluationBuilder, stopwatch
from egg_graph.evaluator.evidence.findings import rejecting
from egg_graph.evaluator.evidence.rungs import RungName
from egg_graph.evaluator.evidence.statements import (
    compile_statement,
    count,
    distinct,
    floor_words,
    forbidden_library,
    launch_statement,
    no_launch,
    not_reached,
    spills,
    uncounted_words,
    unsampled_statement,
    unsampled_words,
    unseen_branches,
)
from egg_graph.evaluator.gpuless.compilation import TargetCompiler
from egg_graph.evaluator.gpuless.correctness import InterpretedCorrectness
from egg_graph.evaluator.gpuless.job_runner import INTERPRETER_THREADS, JobRunner
from egg_graph.evaluator.gpuless.masked_lanes import judge_zeroed, kernels_of
from egg_graph.evaluator.gpuless.roofline import bound
from egg_graph.evaluator.host.fork_server import Limits
from egg_graph.evaluator.host.outcome import finding_of
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.spending import shift_time, spending_on
from egg_graph.evaluator.wire.launches import FakeRun, Launch
from egg_graph.schema import Baseline, Candidate, KernelResources, KernelTask

SAMPLE, LARGE_SAMPLE = 6, 200
"""Interpret this many programs of a launch in a run without values; the second number where coverage is in doubt."""
DOUBTED_SECONDS = 12.0
"""Time limit of a run with `LARGE_SAMPLE` programs [s]."""
COMPILING = ("compile_for_target", "compile_checked_kernels")
"""Rungs that compile; all others compare answers and follow launches."""
MOST_OTHERS = 8
"""Compile at most this many launches that only reduced shapes make."""


@dataclass
class GpulessLadder:
    """The rungs that need no GPU.

    Args:
        jobs: runs a candidate's jobs in processes of their own.
        pool: threads for rungs that run side by side.
    """

    jobs: JobRunner
    pool: ThreadPoolExecutor

    # ------------------------------------------------------------------------------------------- the whole evaluation

    def evaluate(self, problem: Problem, candidate: Candidate) -> EvaluationBuilder:
        """Climb all rungs; right answers and compilation run side by side, and share the time that they take."""
        builder = EvaluationBuilder()
        with spending_on("correctness"), stopwatch() as took:
            self._climb(problem, candidate, builder)
        compiling = sum(rung.seconds for rung in builder.rungs if rung.name in COMPILING)
        if compiling:
            shift_time("compile", took[0] * compiling / sum(rung.seconds for rung in builder.rungs))
        return builder

    def _climb(self, problem: Problem, candidate: Candidate, builder: EvaluationBuilder) -> None:
        if not self.gate(candidate, builder):
            return
        full = self.pool.submit(self.full_shape, problem, candidate)
        correctness = InterpretedCorrectness(self.jobs, problem, candidate, builder, self.pool)
        correctness.every_shape()
        at_full = full.result()
        builder.absorb(at_full)
        if not builder.failed:
            self._same_kernels(problem, candidate, correctness.launched, at_full.launched, builder)
        if (loads := correctness.zeroed) and not builder.failed:
            more = self._resources_of(kernels_of(loads), problem, candidate, correctness.launched, builder)
            judge_zeroed(loads, [*builder.resources, *more], builder, problem.task)
        builder.skipped("answers_on_gpu", NOT_AT_FULL_SHAPE)
        builder.skipped("timing", NO_SPEED)

    def gate(self, candidate: Candidate, builder: EvaluationBuilder) -> bool:
        """Apply the static gate; False if it rejects the candidate."""
        with stopwatch() as took:
            findings = gate.check(candidate)
        if findings:
            builder.fail("static_gate", findings, took[0])
            return False
        told = gate.judged_text(candidate.source).statement
        builder.passed("static_gate", f"passes the static gate: Triton kernels, ModelNew, {told}", took[0])
        return True

    # ------------------------------------------------------------------------------------------------- full shape

    def full_shape(self, problem: Problem, candidate: Candidate) -> EvaluationBuilder:
        """Run launches without values at full shape, compile for the target, and bound the time from below."""
        builder = EvaluationBuilder()
        run = self.launches(problem.task, candidate, self.fake_call(problem), builder)
        if run is None:
            why = "an earlier check failed" if builder.failed else "the launches at full shape are not known"
            builder.skipped("compile_for_target", f"not compiled: {why}")
            builder.skipped("roofline", f"no lower bound: {why}")
            return builder
        self.at_greatest(problem, candidate, builder)
        self.coverage(problem, candidate, run, builder)
        self.compile(problem, candidate, run, builder)
        self.roofline(problem.task, run, builder, problem.untimed_baseline)
        return builder

    def fake_call(
        self,
        problem: Problem,
        budget_seconds: float | None = None,
        wall_seconds: float | None = None,
        *,
        shape: str = "full",
    ) -> dict[str, Any]:
        """Payload of a run without values.

        Args:
            problem: of the task.
            budget_seconds: per launch; a sixth of the timeout if None.
            wall_seconds: of the whole run; the timeout if None.
            shape: `full`, or a name of `Problem.shapes`.
        """
        overrides = problem.overrides(shape)
        return {
            **self.jobs.common(problem.task),
            "wall_seconds": self.jobs.timeout if wall_seconds is None else wall_seconds,
            "arguments": problem.arguments(overrides),
            "inputs": problem.input_forms(overrides),
            "budget_seconds": self.jobs.timeout / 6 if budget_seconds is None else budget_seconds,
            "sample": SAMPLE,
            "fill": False,
            "greatest": False,
        }

    def launches(
        self, task: KernelTask, candidate: Candidate, call: dict[str, Any], builder: EvaluationBuilder
    ) -> FakeRun | None:
        """One rung: a run without values; None where it failed or proves nothing."""
        rung: RungName = "full_shape_launches"
        limit = float(call["wall_seconds"])
        limits = Limits(limit, threads=INTERPRETER_THREADS)
        with stopwatch() as took, self.jobs.job_folder(candidate) as folder:
            end = self.jobs.interpreting.run("egg_graph.evaluator.worker.jobs:launches", call, folder, limits)
        finding = finding_of(end, limit=limit)
        if finding is not None:
            builder.fail(rung, [finding], took[0], end.log)
            return None
        assert end.report is not None
        answer = end.report["answer"]
        if "unfakeable" in answer:
            builder.skipped(rung, f"not proven at full shape: {answer['unfakeable']}", took[0])
            return None
        run = FakeRun.model_validate(answer["run"])
        findings = [*run.findings, *forbidden_library(task, run)]
        if not run.launches:
            findings.append(no_launch())
        if rejecting(findings):
            builder.fail(rung, findings, took[0], end.log)
            return None
        builder.findings += findings
        builder.triton_share = run.triton_share
        builder.launched = run.launches
        builder.passed(rung, launch_statement(run), took[0])
        if unsampled := unsampled_statement(run):
            builder.skipped("unsampled_programs", unsampled)
        return run

    def at_greatest(self, problem: Problem, candidate: Candidate, builder: EvaluationBuilder) -> None:
        """One rung: the same with integer inputs at their greatest values, as an index far into a large table."""
        if not problem.draws_integers:
            return
        rung: RungName = "greatest_integers"
        found = EvaluationBuilder()
        call = {**self.fake_call(problem, DOUBTED_SECONDS / 4, DOUBTED_SECONDS), "greatest": True}
        run = self.launches(problem.task, candidate, call, found)
        seconds = sum(other.seconds for other in found.rungs)
        if outside := [finding for finding in found.findings if finding.kind == "out_of_bounds"]:
            builder.fail(rung, outside, seconds, found.log)
        elif run is None:
            builder.skipped(
                rung, "not known where the greatest integers lead at full shape: no time, or no way", seconds
            )
        else:
            builder.passed(rung, "no access out of bounds at full shape where integers are the greatest drawn", seconds)

    def coverage(self, problem: Problem, candidate: Candidate, run: FakeRun, builder: EvaluationBuilder) -> None:
        """One rung: whether the programs at full shape reach all of each input and output.

        Where they seem not to, many more programs are run, with other values.
        """
        wholly = problem.fully_read_inputs
        judged = [reach for reach in run.reaches if reach.tensor == "output" or reach.index in wholly]
        short = [reach for reach in judged if reach.short]
        if short:
            call = self.fake_call(problem, DOUBTED_SECONDS / 4, DOUBTED_SECONDS)
            call |= {"sample": LARGE_SAMPLE, "fill": True}
            again = self.launches(problem.task, candidate, call, EvaluationBuilder())
            short = [reach for reach in short if again is not None and reach in again.reaches]
        if short:
            builder.fail("coverage_at_full_shape", [not_reached(problem.untimed_baseline, reach) for reach in short])
        elif judged:
            builder.passed("coverage_at_full_shape", "programs enough for all of inputs and outputs at full shape")

    def compile(self, problem: Problem, candidate: Candidate, run: FakeRun, builder: EvaluationBuilder) -> None:
        """One rung: compile every distinct launch for the target."""
        rung: RungName = "compile_for_target"
        target = problem.task.target
        with stopwatch() as took:
            compiled = self._compiler(problem.task, candidate).compile(distinct(run.launches))
        builder.resources = compiled.resources
        if rejecting(compiled.findings):
            builder.fail(rung, compiled.findings, took[0], compiled.log)
            return
        builder.findings += [*compiled.findings, *spills(builder.resources)]
        builder.passed(rung, compile_statement(builder.resources, target.arch) + compiled.told, took[0])
        if compiled.untried:
            told = f"{count(compiled.untried, 'tuning configuration')} not compiled: no time"
            builder.skipped("tuning_configurations", told)

    def _compiler(self, task: KernelTask, candidate: Candidate) -> TargetCompiler:
        return TargetCompiler(self.jobs, task, candidate)

    def _resources_of(
        self,
        kernels: set[str],
        problem: Problem,
        candidate: Candidate,
        checked: Sequence[Launch],
        builder: EvaluationBuilder,
    ) -> tuple[KernelResources, ...]:
        """Compile those of some kernels that are not known at full shape, as reduced shapes launch them."""
        missing = kernels - {resource.kernel for resource in builder.resources}
        launches = distinct([launch for launch in checked if launch.kernel in missing])
        return self._compiler(problem.task, candidate).compile(launches).resources if launches else ()

    def _same_kernels(
        self,
        problem: Problem,
        candidate: Candidate,
        checked: list[Launch],
        at_full: Sequence[Launch],
        builder: EvaluationBuilder,
    ) -> None:
        """Compile the kernels that only reduced shapes launch, and name those that only the full shape launches."""
        known = {launch.kernel for launch in at_full}
        others = distinct([launch for launch in checked if launch.kernel not in known])
        findings = self._compiler(problem.task, candidate).faults(others[:MOST_OTHERS]) if others else []
        if rejecting(findings):
            builder.fail("compile_checked_kernels", findings)
        if unseen := unseen_branches(checked, at_full):
            words = f"no value of {', '.join(unseen)} was checked: reduced shapes launch other kernels or branches"
            builder.skipped("kernels_at_full_shape", words)

    def roofline(
        self, task: KernelTask, run: FakeRun, builder: EvaluationBuilder, baseline: Baseline | None = None
    ) -> None:
        """One rung: the lower bound on time, beside the reference's floor."""
        builder.bound = bound(run, task.target, task.precision, 0.0 if baseline is None else baseline.floor_ms)
        floor = "" if baseline is None else f"; {floor_words(baseline)}"
        products = f"{builder.bound.dot_flops / 1e9:.4g} GFLOP of tl.dot, " if builder.bound.dot_flops else ""
        builder.passed(
            "roofline",
            f"no run on {task.target.name} can take less than {builder.bound.milliseconds:.4g} ms "
            f"({builder.bound.dram_bytes / 1e6:.4g} MB through DRAM, {products}"
            f"{count(builder.bound.launches, 'launch', 'launches')}, limited by {builder.bound.limiter})"
            f"{unsampled_words(run)}{uncounted_words(run)}{floor}",
        )
