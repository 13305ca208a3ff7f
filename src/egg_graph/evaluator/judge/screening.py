"""Screen many configurations of one kernel without a GPU, by cheaper evidence than an evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from egg_graph.evaluator.evidence.builder import EvaluationBuilder
from egg_graph.evaluator.evidence.findings import reason_of, rejecting, status_of
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.progress import hear_progress, heard_here, report_progress
from egg_graph.evaluator.spending import spending_on
from egg_graph.schema import Candidate, Evaluation, Finding, KernelResources, Trial

if TYPE_CHECKING:
    from egg_graph.evaluator.gpuless.ladder import GpulessLadder


def screen_without_gpu(ladder: GpulessLadder, problem: Problem, candidates: Sequence[Candidate]) -> list[Trial]:
    """Run static gate, full-shape launches and compilation of each, side by side; merit as in `Evaluation.merit`.

    One broken configuration is one failed Trial; the others do not notice.
    """

    def screen(number: int, candidate: Candidate, rejected: Trial | None) -> Trial:
        report_progress("compiles and launches at full shape", number=number)
        with hear_progress(None):  # the rungs of several configurations at once would tell nothing
            trial = rejected or _trial(ladder, problem, candidate)
        report_progress(number=number, trial=trial)
        return trial

    gated = [gate(ladder, candidate) for candidate in candidates]
    with spending_on("compile"):
        return list(ladder.pool.map(heard_here(screen), range(len(candidates)), candidates, gated))


def gate(ladder: GpulessLadder, candidate: Candidate) -> Trial | None:
    """Apply the static gate: the failed trial if it rejects a candidate, else None.

    Only one thread may do that at a time: `ast.parse` of CPython 3.11 counts its depth for all threads together and
    raises a SystemError where two threads parse at once.
    """
    builder = EvaluationBuilder()
    with hear_progress(None):
        return None if ladder.gate(candidate, builder) else rejected_trial(candidate, builder.findings)


def _trial(ladder: GpulessLadder, problem: Problem, candidate: Candidate) -> Trial:
    builder = ladder.full_shape(problem, candidate)
    rejected = rejecting(builder.findings)
    if rejected:
        return rejected_trial(candidate, builder.findings, builder.resources)
    evidence = Evaluation(
        candidate=candidate.id,
        task=problem.task.digest,
        status="correct",
        reason="",
        bound=builder.bound,
        resources=builder.resources,
    )
    return Trial(
        config=candidate.config,
        status="correct",
        reason="compiles and stays in bounds at full shape; answers not compared",
        resources=builder.resources,
        merit=evidence.merit,
    )


def rejected_trial(
    candidate: Candidate, findings: Sequence[Finding], resources: tuple[KernelResources, ...] = ()
) -> Trial:
    """The trial of a configuration that findings reject."""
    return Trial(
        config=candidate.config,
        status=status_of(findings),
        reason=reason_of(rejecting(findings)[0]),
        resources=resources,
    )
