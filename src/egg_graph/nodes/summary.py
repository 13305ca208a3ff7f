"""Summarize a finished stage for the stages that follow: the INTER-stage context."""

from egg_graph.budgets import part_exhausted
from egg_graph.context import Context
from egg_graph.routing import at_the_floor, evaluation_of_best, exhausted, floor_factor, stage_attempts
from egg_graph.schema import Attempt, Outcome, StageName, StageSummary, Usage
from egg_graph.state import StageState


def summarize(state: StageState, stage: StageName, context: Context) -> StageSummary:
    """The summary of a stage: what was tried, what paid, what failed and why, and what is left to do."""
    attempts = stage_attempts(state, stage)
    best, evaluation = state.get("best"), evaluation_of_best(state)
    usage = sum((a.usage for a in attempts), state.get("pending", Usage()))
    return StageSummary(
        stage=stage,
        outcome=_outcome(state, stage, attempts, context),
        attempts=len(attempts),
        tried=tuple(_line(a) for a in attempts),
        paid=tuple(_line(a) for a in attempts if a.improved),
        failed=tuple(
            f"{_line(a)} -> {a.evaluation.status}: {a.evaluation.reason}"
            for a in attempts
            if not (a.improved or a.undecided)
        ),
        left=_left(state, context),
        best=None if best is None else best.id,
        best_status=None if evaluation is None else evaluation.status,
        usage=usage,
    )


def _left(state: StageState, context: Context) -> str:
    analysis, factor = state.get("analysis"), floor_factor(state)
    if factor is not None and at_the_floor(state, context):
        return f"nothing: the kernel takes {factor:.2f} times the task's floor"
    return "" if analysis is None else analysis.root_cause or analysis.bottleneck


def _outcome(state: StageState, stage: StageName, attempts: list[Attempt], context: Context) -> Outcome:
    analysis = state.get("analysis")
    if any(a.improved for a in attempts):
        return "improved"
    if any(a.evaluation.status == "unevaluable" for a in attempts):
        return "unevaluable"
    if attempts and not any(a.evaluation.usable for a in attempts):
        return "all_failed"
    if not attempts and state.get("best") is None and analysis is not None:
        return "no_kernel"
    if at_the_floor(state, context):
        return "at_the_floor"
    if exhausted(state, context) or part_exhausted(state, context, stage):
        return "budget_exhausted"
    if analysis is not None and not analysis.worth_optimizing:
        return "not_worth_optimizing"
    return "kept"


def _line(attempt: Attempt) -> str:
    repeats = "" if attempt.repeats is None else f", the same program as attempt {attempt.repeats}"
    return f"attempt {attempt.number} ({attempt.candidate.mode}): {attempt.candidate.plan or 'no plan told'}{repeats}"
