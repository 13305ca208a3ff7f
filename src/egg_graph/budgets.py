"""The budgets of a run, of a stage and of a role: which one is used up."""

import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import get_args

from egg_graph.context import ATTEMPTS_CEILING, MEASURES, Context, read_budgets
from egg_graph.model_requests import Terms
from egg_graph.schema import Part, Role, Spending, StageName, Usage
from egg_graph.state import OutputState

ON_GPU: tuple[Part, ...] = ("correctness", "timing", "profile", "sanitizer")
"""The parts of an evaluator's time in which its GPU works."""
OF_EVALUATIONS = ("seconds", "gpu_seconds")
"""Measures of a stage that its sweep uses up as well."""
NOTHING = Usage()
"""What a run has spent that has asked nobody yet."""


def exhausted(state: OutputState, context: Context) -> str:
    """Name the budget of the run that is used up; empty while none is.

    Without its coder a run can make no attempt, so the coder's budgets are the run's. The contender, attempt 0, counts
    for none.
    """
    spent = state.get("usage", NOTHING)
    if sum(attempt.number > 0 for attempt in state.get("attempts", [])) >= context.max_attempts:
        return f"max_attempts ({context.max_attempts}) reached"
    if spent.calls >= context.max_calls > 0:
        return f"max_calls ({context.max_calls}) reached"
    if spent.tokens >= context.max_tokens > 0:
        return f"max_tokens ({context.max_tokens}) reached"
    if spent.dollars >= context.max_dollars > 0:
        return f"max_dollars ({context.max_dollars:g}) reached"
    if context.max_gpu_seconds and gpu_seconds(state) >= context.max_gpu_seconds:
        return f"max_gpu_seconds ({context.max_gpu_seconds:g}) reached"
    if state.get("seconds", 0.0) >= context.max_seconds:
        return f"max_seconds ({context.max_seconds:g}) reached"
    return part_exhausted(state, context, "coder")


def without_budgets(context: Context) -> Context:
    """The same knobs, with no budget but the attempts that no run may exceed."""
    return replace(
        context,
        max_attempts=ATTEMPTS_CEILING,
        max_seconds=sys.maxsize,
        max_calls=0,
        max_tokens=0,
        max_dollars=0,
        max_gpu_seconds=0,
        budgets=(),
    )


def gpu_seconds(state: OutputState, part: StageName | Role | None = None) -> float:
    """Seconds for which a GPU was at work, for evaluations and sweeps; 0 where there is none.

    Args:
        part: a stage; None for the whole run, its baseline included. A role keeps no GPU at work.
    """
    baseline = state.get("baseline")
    if baseline is None or baseline.eager_ms is None:
        return 0.0
    spendings = judged_spendings(state, part) if part else [baseline.spent, *judged_spendings(state)]
    return sum(spending.seconds.get(each, 0.0) for spending in spendings for each in ON_GPU)


def judged_spendings(state: OutputState, part: StageName | Role | None = None) -> list[Spending]:
    """What evaluations and trials of the run, or of one of its stages, took; a kernel judged twice counts once."""
    attempts = [a for a in state.get("attempts", []) if part in (None, a.candidate.stage)]
    judged = {attempt.evaluation.candidate: attempt.evaluation for attempt in attempts}
    trials = [trial for sweep in state.get("sweeps", []) if part in (None, sweep.stage) for trial in sweep.trials]
    return [*(one.spent for one in judged.values()), *(trial.spent for trial in trials)]


def spent_on(state: OutputState, part: StageName | Role) -> dict[str, float]:
    """What a stage or a role has spent, by measure.

    A role's seconds are those until its answers came; a stage's are also those of its evaluations and sweeps.
    """
    usage = state.get("costs", {}).get(part, NOTHING)
    judging = sum(sum(spending.seconds.values()) for spending in judged_spendings(state, part))
    return {
        "calls": usage.calls,
        "tokens": usage.tokens,
        "dollars": usage.dollars,
        "seconds": usage.seconds + judging,
        "gpu_seconds": gpu_seconds(state, part),
    }


def part_exhausted(
    state: OutputState, context: Context, part: StageName | Role, measures: Sequence[str] = MEASURES
) -> str:
    """Name the budget of one stage or role that is used up; empty while none is.

    Args:
        measures: whose budgets count.
    """
    limits = read_budgets(context.budgets)
    if not limits:
        return ""
    for measure, spent in spent_on(state, part).items():
        limit = limits.get((part, measure))
        if limit is not None and measure in measures and spent >= limit:
            return f"{part}.{measure} ({limit:g}) reached"
    return ""


def reached(state: OutputState, context: Context) -> list[str]:
    """Every budget that is used up: the run's first, then those of stages and roles."""
    parts: list[StageName | Role] = [*get_args(StageName), "analyst", "debugger"]
    return list(filter(None, [exhausted(state, context), *(part_exhausted(state, context, part) for part in parts)]))


def add_cost(state: OutputState, stage: StageName, role: Role, usage: Usage) -> OutputState:
    """What the run and its parts have spent, with the cost of one more answer: it counts for its stage and its role."""
    costs = state.get("costs", {})
    parts: dict[str, Usage] = {part: costs.get(part, NOTHING) + usage for part in (stage, role)}
    return OutputState(usage=state.get("usage", NOTHING) + usage, costs={**costs, **parts})


def spent_by(state: OutputState, context: Context, stage: StageName, role: Role, more: Usage | None = None) -> str:
    """Name the budget that forbids one more request of a role in a stage; empty where none does.

    Args:
        more: what the role has spent beside what the state holds.
    """
    after: OutputState = state if more is None else {**state, **add_cost(state, stage, role, more)}
    return exhausted(after, context) or part_exhausted(after, context, stage) or part_exhausted(after, context, role)


def room_for(state: OutputState, context: Context, stage: StageName, role: Role, *, paid: bool) -> int:
    """How many kernels a role may write at once before a budget of attempts or of requests is used up.

    Args:
        paid: whether each of them costs a request to a model at least.
    """
    rooms = [context.max_attempts - sum(attempt.number > 0 for attempt in state.get("attempts", []))]
    if paid:
        calls: list[tuple[float, Usage]] = (
            [(context.max_calls, state.get("usage", Usage()))] if context.max_calls else []
        )
        for part in (stage, role):
            limit = read_budgets(context.budgets).get((part, "calls"))
            calls += [] if limit is None else [(limit, state.get("costs", {}).get(part, Usage()))]
        rooms += [math.ceil(limit - spent.calls) for limit, spent in calls]
    return max(0, min(rooms))


def terms_of(state: OutputState, context: Context, stage: StageName, role: Role) -> Terms:
    """The terms under which a role asks its model in this state."""
    spent = partial(spent_by, state, context, stage, role)
    return Terms(timeout=context.timeout, knowledge_dir=context.knowledge_dir, spent=spent)
