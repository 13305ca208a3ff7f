"""Run a candidate in the interpreter while the GPU works: for a lower bound of its time, and for stray accesses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from egg_graph.evaluator.evidence.builder import EvaluationBuilder
from egg_graph.evaluator.evidence.findings import reason_of, rejecting
from egg_graph.evaluator.evidence.rungs import RungName
from egg_graph.evaluator.gpuless.ladder import GpulessLadder
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.schema import Candidate, Finding, FindingKind, InfrastructureError, KernelTask

ODD_SHAPE: RungName = "bounds_at_odd_shape"
"""Name of the rung on stray accesses."""
LAUNCH_SECONDS, TOTAL_SECONDS = 1.0, 20.0
"""Time limits of one run [s]: per launch, after its first two programs, and in all."""
PROVEN: frozenset[FindingKind] = frozenset({"out_of_bounds", "library_call"})
"""Findings of the interpreter that reject even if the GPU's answer is right."""


class InterpreterRuns:
    """Two interpreter runs without values, in the background.

    One is at full shape, for the lower bound of the time. The other is at an odd shape, for accesses out of bounds,
    which a GPU does not check. Inputs are drawn here, in the judge's own thread: random numbers have one source.

    Args:
        base: the ladder without a GPU, whose interpreter runs the candidate.
        problem: the task.
        candidate: is run.
    """

    def __init__(self, base: GpulessLadder, problem: Problem, candidate: Candidate) -> None:
        seconds = min(TOTAL_SECONDS, base.jobs.timeout)
        shape = "awkward" if "awkward" in problem.shapes else "shrunk"
        calls = [base.fake_call(problem, LAUNCH_SECONDS, seconds, shape=name) for name in ("full", shape)]
        self.full = base.pool.submit(_run_at_full_shape, base, problem.task, candidate, calls[0])
        self.odd = base.pool.submit(_run_at_odd_shape, base, problem.task, candidate, calls[1], problem.shapes[shape])

    def absorb(self, builder: EvaluationBuilder) -> None:
        """Wait for both runs, and add what they proved."""
        rungs: tuple[tuple[RungName, Future[EvaluationBuilder]], ...] = (("roofline", self.full), (ODD_SHAPE, self.odd))
        for name, future in rungs:
            try:
                builder.absorb(future.result())
            except InfrastructureError as error:  # the GPU's evidence needs neither
                builder.skipped(name, f"not run: {error}")


def findings_at(base: GpulessLadder, problem: Problem, candidate: Candidate, shape: str) -> Sequence[Finding]:
    """What a run without values finds at a shape; nothing where the machine failed."""
    found = EvaluationBuilder()
    seconds = min(TOTAL_SECONDS, base.jobs.timeout)
    try:
        base.launches(problem.task, candidate, base.fake_call(problem, LAUNCH_SECONDS, seconds, shape=shape), found)
    except InfrastructureError:  # the GPU's evidence stands by itself
        return ()
    return found.findings


def _run_at_odd_shape(
    base: GpulessLadder, task: KernelTask, candidate: Candidate, call: dict[str, Any], sizes: Mapping[str, int]
) -> EvaluationBuilder:
    """Check that every access at an odd shape is inside its tensor; if masked away later, it shows nowhere else."""
    run_found, found = EvaluationBuilder(), EvaluationBuilder()
    run = base.launches(task, candidate, call, run_found)
    seconds = sum(rung.seconds for rung in run_found.rungs)
    at = ", ".join(f"{name} = {value}" for name, value in sizes.items()) or "its own shape"
    if proven := [finding for finding in run_found.findings if finding.kind in PROVEN]:
        found.fail(ODD_SHAPE, proven, seconds, run_found.log)
    elif run is None:
        found.skipped(ODD_SHAPE, f"not proven at {at}: the interpreter stopped", seconds)
    else:
        found.passed(ODD_SHAPE, f"every access of the programs run is inside of its tensor at {at}", seconds)
    return found


def _run_at_full_shape(
    base: GpulessLadder, task: KernelTask, candidate: Candidate, call: dict[str, Any]
) -> EvaluationBuilder:
    """Run at full shape and compute the lower bound. A failure of this run proves nothing, unless it is in `PROVEN`."""
    found = EvaluationBuilder()
    run = base.launches(task, candidate, call, found)
    if run is not None:
        base.roofline(task, run, found)
        return found
    proven = [finding for finding in found.findings if finding.kind in PROVEN]
    if found.failed and not proven:
        seconds = sum(rung.seconds for rung in found.rungs)
        why = reason_of(rejecting(found.findings)[0])
        found = EvaluationBuilder()
        found.skipped("full_shape_launches", f"not proven at full shape: the interpreter stopped: {why}", seconds)
    found.skipped("roofline", "no lower bound: the launches at full shape are not known")
    return found
