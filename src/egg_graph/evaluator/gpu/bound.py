"""What the interpreter knows and a GPU does not tell, found while the GPU works: a lower bound, and stray accesses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from egg_graph.evaluator.evidence.builder import EvaluationBuilder
from egg_graph.evaluator.evidence.findings import reason_of, rejecting
from egg_graph.evaluator.evidence.rungs import RungName
from egg_graph.evaluator.gpuless.ladder import Ladder
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.schema import Candidate, FindingKind, InfrastructureError, KernelTask

ODD: RungName = "bounds_at_odd_shape"
FAKE_BUDGET, FAKE_SECONDS = 1.0, 20.0
"""Seconds that the interpreter may take for the lower bound: per launch, after the first two programs, and in all."""
PROVEN_BY_FAKES: frozenset[FindingKind] = frozenset({"out_of_bounds", "library_call"})
"""What the interpreter's word rejects even where the GPU's answer is right."""


class Bounding:
    """Two runs without values in the background: at full shape for the bound, at an odd shape for the bounds of
    tensors, which a GPU does not check.

    Inputs are drawn here, in the judge's own thread: random numbers have one source.

    Args:
        base: whose interpreter runs them.
        problem: of the task.
        candidate: to be run.
    """

    def __init__(self, base: Ladder, problem: Problem, candidate: Candidate) -> None:
        seconds = min(FAKE_SECONDS, base.jobs.timeout)
        shape = "awkward" if "awkward" in problem.shapes else "shrunk"
        calls = [base.fake_call(problem, FAKE_BUDGET, seconds, shape=name) for name in ("full", shape)]
        self.full = base.pool.submit(_bound, base, problem.task, candidate, calls[0])
        self.odd = base.pool.submit(_in_bounds, base, problem.task, candidate, calls[1], problem.shapes[shape])

    def absorb(self, builder: EvaluationBuilder) -> None:
        """Wait for both and add what they proved."""
        rungs: tuple[tuple[RungName, Any], ...] = (("roofline", self.full), (ODD, self.odd))
        for name, future in rungs:
            try:
                builder.absorb(future.result())
            except InfrastructureError as error:  # the evidence of the GPU stands without it
                builder.skipped(name, f"not run: {error}")


def _in_bounds(
    base: Ladder, task: KernelTask, candidate: Candidate, call: dict[str, Any], sizes: Mapping[str, int]
) -> EvaluationBuilder:
    """Whether every access at an odd shape is inside of its tensor: one that is masked away later shows nowhere."""
    run_found, found = EvaluationBuilder(), EvaluationBuilder()
    run = base.launches(task, candidate, call, run_found)
    seconds = sum(rung.seconds for rung in run_found.rungs)
    at = ", ".join(f"{name} = {value}" for name, value in sizes.items()) or "its own shape"
    if proven := [finding for finding in run_found.findings if finding.kind in PROVEN_BY_FAKES]:
        found.fail(ODD, proven, seconds, run_found.log)
    elif run is None:
        found.skipped(ODD, f"not proven at {at}: the interpreter stopped", seconds)
    else:
        found.passed(ODD, f"every access of the programs run is inside of its tensor at {at}", seconds)
    return found


def _bound(base: Ladder, task: KernelTask, candidate: Candidate, call: dict[str, Any]) -> EvaluationBuilder:
    """The full-shape run and the bound that follows; what fails there proves nothing."""
    found = EvaluationBuilder()
    run = base.launches(task, candidate, call, found)
    if run is not None:
        base.roofline(task, run, found)
        return found
    proven = [finding for finding in found.findings if finding.kind in PROVEN_BY_FAKES]
    if found.failed and not proven:
        seconds = sum(rung.seconds for rung in found.rungs)
        why = reason_of(rejecting(found.findings)[0])
        found = EvaluationBuilder()
        found.skipped("full_shape_launches", f"not proven at full shape: the interpreter stopped: {why}", seconds)
    found.skipped("roofline", "no lower bound: the launches at full shape are not known")
    return found
