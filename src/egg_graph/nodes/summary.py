"""Summarize a finished stage for the stages that follow: the INTER-stage context."""

from egg_graph.context import Context
from egg_graph.nodes.history import read_chains
from egg_graph.routing import (
    at_the_floor,
    cut_short,
    evaluation_of_best,
    floor_factor,
    not_worth_its_price,
    out_of_patience,
    stage_attempts,
    untimed_at_its_best,
)
from egg_graph.schema import Attempt, Chain, Outcome, StageName, StageSummary, Usage
from egg_graph.state import StageState

NOT_ACCEPTED = ("less_proven", "no_better", "broken")
"""Outcomes of a chain after which the best kernel stayed, for a reason that is known."""
TOO_DEAR = "nothing that is worth its price"
"""How the line begins that says what is left where no plan is worth its price."""
AT_ITS_BEST = (
    "nothing that could be shown: nothing is timed here, and by its bound the kernel takes no longer than the task's "
    "floor (the knob tune_untimed has plans made all the same)"
)
"""What is left where no kernel could rank higher."""


def summarize(state: StageState, stage: StageName, context: Context, *, paid: bool) -> StageSummary:
    """The summary of a stage: what was tried, what paid, what failed and why, and what is left to do.

    Args:
        paid: whether the team's answers cost calls of a model.
    """
    budget = cut_short(state, context, stage, paid=paid)
    attempts = stage_attempts(state, stage)
    best, evaluation = state.get("best"), evaluation_of_best(state)
    chains = read_chains(state.get("attempts", []), best, stage)
    usage = sum((a.usage for a in attempts), state.get("pending", Usage()))
    return StageSummary(
        stage=stage,
        outcome=_outcome(state, attempts, context, budget),
        attempts=len(attempts),
        tried=tuple(map(_plan, chains)),
        paid=tuple(f"{_plan(c)}{_deltas(c)}" for c in chains if c.outcome == "improved"),
        failed=tuple(f"{_plan(c)} -> {_why_not(c)}" for c in chains if c.outcome in NOT_ACCEPTED),
        undecided=tuple(f"{_plan(c)}{_deltas(c)}" for c in chains if c.outcome == "undecided"),
        left=_left(state, context, stage, paid=paid),
        best=None if best is None else best.id,
        cut_short=budget,
        best_status=None if evaluation is None else evaluation.status,
        usage=usage,
    )


def _left(state: StageState, context: Context, stage: StageName, *, paid: bool) -> str:
    if untimed_at_its_best(state, context, paid=paid):
        return AT_ITS_BEST
    analysis, factor = state.get("analysis"), floor_factor(state)
    if factor is not None and at_the_floor(state, context):
        return f"nothing: the kernel takes {factor:.2f} times the task's floor"
    if dear := _too_dear(state, context):
        return f"{TOO_DEAR}: {dear}"
    if out_of_patience(state, context, stage):
        return f"given up: {context.patience} plans in a row brought no better kernel (patience)"
    return "" if analysis is None else analysis.root_cause or analysis.bottleneck


def _too_dear(state: StageState, context: Context) -> str:
    """Why no further plan is worth its price; empty where the analyst itself saw none that is worth it."""
    analysis = state.get("analysis")
    refused = analysis is not None and not analysis.worth_optimizing
    return "" if refused else not_worth_its_price(state, context)


def _outcome(state: StageState, attempts: list[Attempt], context: Context, budget: str) -> Outcome:
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
    if _too_dear(state, context):
        return "not_worth_its_price"
    if budget:
        return "budget_exhausted"
    if analysis is not None and not analysis.worth_optimizing:
        return "not_worth_optimizing"
    return "kept"


def _plan(chain: Chain) -> str:
    """Numbers, mode and plan of a chain, and how many repairs its kernel took."""
    repairs, repeats = chain.attempts - 1, chain.steps[-1].repeats
    repaired = f" (repaired {repairs} times)" if repairs > 1 else " (repaired once)" if repairs else ""
    over = "; another draft of it went on" if chain.outcome == "passed_over" else ""
    again = "" if repeats is None else f", the same program as attempt {repeats}"
    plan = chain.plan or ("the first kernel" if chain.mode == "seed" else "no plan told")
    return f"{chain.numbers} ({chain.mode}): {plan}{repaired}{again}{over}"


def _deltas(chain: Chain) -> str:
    told = (f"{d.metric} {d.before:.4g} to {d.after:.4g}" for d in chain.deltas)
    return f" -> {', '.join(told)}" if chain.deltas else ""


def _why_not(chain: Chain) -> str:
    last = chain.steps[-1]
    if chain.outcome == "broken":
        return f"{last.status}: {last.failure}"
    if chain.outcome == "less_proven":
        return f"{last.status}, but it did not pass {', '.join(chain.lost)} as the best kernel does{_deltas(chain)}"
    return f"{last.status}, but no better than the best kernel{_deltas(chain)}"
