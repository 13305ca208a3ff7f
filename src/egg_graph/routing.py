"""Where a run goes next: pure functions of the state and the knobs.

    baseline ─── contender → contender      a model is to be paid: the embedded expert's kernel is judged first
    open ─────── skip ────→ next stage      the stage is left out, or would tune what nothing times
    open, analyst ─ judge → evaluator       a person put a kernel in place of the best one
    analyst ──── rewrite ─→ coder           the plan changes the source
              ── sweep ───→ tuner           the plan only turns knobs
              ── accept ──→ tuner           no plan is worth it: the stage keeps its best kernel
    evaluator ── repair ──→ debugger        the candidate is broken, and repairs are left
              ── optimize → analyst         there is a kernel, and optimizations are left
              ── accept ──→ tuner           otherwise, or at the floor: the stage keeps its best kernel
    coder ────── side_by_side → draft       several coders draft from one brief; otherwise the coder has written alone
    evaluator ── side_by_side → judge       their drafts are judged side by side, and then ranked
              ── rank ────→ rank            none of them needs to be judged
    rank ─────── as the evaluator, for the draft that goes on

Every cycle passes the evaluator, every evaluation adds an attempt, and the number of attempts is bounded, so every run
ends.
"""

from typing import Literal

from egg_graph.budgets import exhausted as exhausted
from egg_graph.budgets import part_exhausted, without_budgets
from egg_graph.context import Context
from egg_graph.schema import Attempt, Evaluation, SideDraft, StageName, Usage
from egg_graph.stages import TUNING_STAGES, swept_knobs
from egg_graph.state import OutputState, StageState


def tried(state: OutputState) -> list[Attempt]:
    """The attempts of the run without the contender, which is number 0 and cost the team nothing."""
    return [a for a in state.get("attempts", []) if a.number > 0]


def next_number(state: OutputState) -> int:
    """Number of the attempt in work: the contender is 0, the first of the team 1."""
    return len(tried(state)) + 1


def contender_of(state: OutputState) -> Attempt | None:
    """The embedded expert's kernel that the team must beat; None where there is no usable one."""
    return next((a for a in state.get("attempts", []) if a.number == 0 and a.evaluation.usable), None)


def stage_attempts(state: OutputState, stage: StageName) -> list[Attempt]:
    """The attempts of one stage, in order: its intra-stage history."""
    return [a for a in tried(state) if a.candidate.stage == stage]


def optimizations(attempts: list[Attempt]) -> int:
    """Count the optimizations that were tried. A repair of one is not another one, nor is a draft beside it."""
    return sum(a.candidate.mode == "optimize" and a.leads_its_drafts for a in attempts)


def repairs_in_a_row(attempts: list[Attempt]) -> int:
    """Count the repairs at the end of the list: those of the candidate at hand."""
    count = 0
    for attempt in reversed(attempts):
        if attempt.candidate.mode != "repair":
            break
        count += 1
    return count


def evaluation_of_best(state: OutputState) -> Evaluation | None:
    """The run's evaluation of `best`, and of no other kernel; None where the run has not evaluated it."""
    best, evaluation = state.get("best"), state.get("evaluation")
    if best is None:
        return None
    if evaluation is not None and evaluation.candidate == best.id:
        return evaluation
    return evaluation_of(state, best.id)


def evaluation_of(state: OutputState, candidate: str) -> Evaluation | None:
    """The first evaluation of the candidate with this id; None where the run has not evaluated it."""
    return next((a.evaluation for a in state.get("attempts", []) if a.evaluation.candidate == candidate), None)


def timed(state: OutputState) -> bool:
    """True where kernels are timed in this run: the reference was, or the best kernel is."""
    baseline, evaluation = state.get("baseline"), evaluation_of_best(state)
    if baseline is not None and baseline.eager_ms is not None:
        return True
    return evaluation is not None and evaluation.timing is not None


def floor_factor(state: OutputState) -> float | None:
    """How many times the task's floor the best kernel takes; None where it is not timed or there is no floor."""
    baseline, evaluation = state.get("baseline"), evaluation_of_best(state)
    if baseline is None or baseline.floor_ms <= 0 or evaluation is None or evaluation.timing is None:
        return None
    return evaluation.timing.candidate_ms / baseline.floor_ms


def at_the_floor(state: OutputState, context: Context) -> bool:
    """True where the best kernel is right, and as near to the task's floor as `Context.near_floor` asks for."""
    factor = floor_factor(state)
    return factor is not None and factor <= context.near_floor and not unjudged(state)


def price_of_a_plan(state: OutputState) -> float:
    """What a plan, a seed included, has cost in this run so far, with its repairs and the drafts beside it [USD]."""
    plans = [a for a in tried(state) if a.candidate.mode in ("seed", "optimize") and a.leads_its_drafts]
    return state.get("usage", Usage()).dollars / max(1, len(plans))


def not_worth_its_price(state: OutputState, context: Context) -> str:
    """Why no further plan is worth its price, with the numbers; empty where one may be.

    The floor is a lower bound, so this is the most that a plan could save; what it costs is what one cost so far.
    """
    if not context.min_gain_per_dollar:
        return ""
    factor, price = floor_factor(state), price_of_a_plan(state)
    if factor is None or not price or unjudged(state):
        return ""
    percent = max(0.0, 100 * (1 - 1 / factor))
    if percent / price >= context.min_gain_per_dollar:
        return ""
    return (
        f"even at the task's floor the kernel would take {percent:.3g} % less time, and a plan has cost ${price:.3g} "
        f"so far: at most {percent / price:.3g} % per dollar, "
        f"below min_gain_per_dollar ({context.min_gain_per_dollar:g})"
    )


def out_of_patience(state: OutputState, context: Context, stage: StageName) -> bool:
    """True where as many plans of a stage in a row as `Context.patience` says brought no better kernel."""
    fruitless = 0
    for attempt in reversed(stage_attempts(state, stage)):
        if attempt.improved:
            break
        fruitless += attempt.candidate.mode == "optimize" and attempt.leads_its_drafts
    return 0 < context.patience <= fruitless


def unjudged(state: OutputState) -> bool:
    """True when `best` was put there by a person: the run has not evaluated it, or found it unusable."""
    evaluation = evaluation_of_best(state)
    return state.get("best") is not None and (evaluation is None or not evaluation.usable)


def without_kernel(state: OutputState) -> bool:
    """True when attempts were made and none was usable, or a stage has ended and the team wrote none."""
    return state.get("best") is None and bool(tried(state) or state.get("summaries"))


def after_baseline(
    state: OutputState, context: Context, *, paid: bool
) -> Literal["contender", "evaluable", "unevaluable"]:
    """End the run where the reference cannot be judged; judge a contender where the stages would pay a model.

    Args:
        paid: whether the team's answers cost calls of a model.
    """
    if state["baseline"].unevaluable:
        return "unevaluable"
    return "contender" if wants_contender(state, context, paid=paid) else "evaluable"


def wants_contender(state: OutputState, context: Context, *, paid: bool) -> bool:
    """Whether the embedded expert's kernel is judged before a model is paid; `paid` as for `after_baseline`."""
    return paid and context.expert_seed and bool(context.stages) and state.get("best") is None


def after_structure(state: OutputState) -> Literal["kernel", "no_kernel"]:
    """End the run where there is no kernel to tune."""
    return "no_kernel" if without_kernel(state) else "kernel"


def enter(state: OutputState, context: Context, stage: StageName) -> Literal["enter", "skip"]:
    """Skip a stage that the context leaves out, or that has no kernel to work on. It leaves no summary."""
    return "enter" if stage in context.stages and not without_kernel(state) else "skip"


def untimed_tuning(state: OutputState, context: Context, stage: StageName, *, paid: bool) -> bool:
    """True where a stage would pay for tuning a kernel for the hardware, and nothing could show that it pays.

    Args:
        paid: whether the team's answers cost calls of a model.
    """
    if not paid or context.tune_untimed or stage not in {one.name for one in TUNING_STAGES}:
        return False
    return bool(tried(state)) and state.get("best") is not None and not unjudged(state) and not timed(state)


def untimed_at_its_best(state: OutputState, context: Context, *, paid: bool) -> bool:
    """True where a plan would be paid for and could not be accepted: nothing is timed, and no kernel could rank higher.

    Args:
        paid: whether the team's answers cost calls of a model.
    """
    evaluation = evaluation_of_best(state)
    if not paid or context.tune_untimed or evaluation is None or unjudged(state):
        return False
    return evaluation.untimed_at_its_best


def after_opening(
    state: OutputState, context: Context, stage: StageName, *, paid: bool
) -> Literal["skip", "seed", "judge", "optimize", "tune", "exhausted"]:
    """The first stage that runs writes a seed, also beside a contender; the others start from the kernel at hand.

    A kernel that a person handed in is judged first. Nobody is paid for tuning what nothing times, nor for a plan where
    nothing could rank higher, and nobody is asked about a kernel that is at the floor, or of which no plan is worth its
    price: only the tuner sweeps its knobs.

    Args:
        paid: whether the team's answers cost calls of a model.
    """
    if enter(state, context, stage) == "skip" or untimed_tuning(state, context, stage, paid=paid):
        return "skip"
    if exhausted(state, context):
        return "exhausted"
    if at_the_floor(state, context) or not_worth_its_price(state, context):
        return "tune"
    spent = part_exhausted(state, context, stage)
    best, contender = state.get("best"), contender_of(state)
    if best is None or (contender is not None and best.id == contender.candidate.id and not tried(state)):
        return "exhausted" if spent else "seed"
    if unjudged(state):
        return "judge"
    asked = context.max_optimizations > 0 and not spent and not part_exhausted(state, context, "analyst")
    return "optimize" if asked and not untimed_at_its_best(state, context, paid=paid) else "tune"


def after_analysis(state: OutputState) -> Literal["judge", "rewrite", "sweep_or_accept"]:
    """Send a plan that changes the source to the coder, and one that only turns knobs to the tuner.

    Without a plan the kernel is accepted, and that leads to the tuner too: it sweeps the knobs that are left.
    """
    if unjudged(state):
        return "judge"
    analysis = state.get("analysis")
    if analysis is None or not analysis.worth_optimizing or analysis.by == "sweep":
        return "sweep_or_accept"
    return "rewrite"


def after_coder(state: StageState) -> Literal["alone", "side_by_side"]:
    """Drafts that were ordered are written side by side; a coder that wrote alone hands its kernel to the evaluator."""
    return "alone" if state.get("side_by_side") is None else "side_by_side"


def waiting(state: StageState) -> list[SideDraft]:
    """The drafts that the evaluator has to judge: those with code that are no program of an earlier attempt."""
    known = {attempt.candidate.program for attempt in state.get("attempts", [])}
    drafts = state.get("drafts", []) if state.get("side_by_side") is not None else []
    return [d for d in drafts if d.candidate and not d.candidate.problem and d.candidate.program not in known]


def after_evaluator(
    state: StageState, context: Context, stage: StageName, *, paid: bool
) -> Literal["side_by_side", "rank", "repair", "optimize", "accept"]:
    """Drafts that wait are judged side by side and ranked; otherwise see `after_evaluation`.

    Args:
        paid: whether the team's answers cost calls of a model.
    """
    if state.get("side_by_side") is None:
        return after_evaluation(state, context, stage, paid=paid)
    return "side_by_side" if waiting(state) else "rank"


def _repairable(attempts: list[Attempt], context: Context) -> bool:
    """True while repairs are left and the last two answers were not the same.

    False also where the plan changed no more than values of CONFIG: the kernel before it is still the best one.
    """
    last = attempts[-1]
    if last.candidate.mode == "optimize" and last.analysis is not None and last.analysis.by == "config":
        return False
    return repairs_in_a_row(attempts) < context.max_repairs and not _stuck(attempts)


def _stuck(attempts: list[Attempt]) -> bool:
    """True when the last two answers held the same text and no code; a third would be the same."""
    last_two = [a.candidate for a in attempts[-2:]]
    return len(last_two) == 2 and bool(last_two[0].problem) and last_two[0].id == last_two[1].id


def after_evaluation(
    state: OutputState, context: Context, stage: StageName, *, paid: bool
) -> Literal["repair", "optimize", "accept"]:
    """Choose what follows the last evaluation of this stage.

    Args:
        paid: whether the team's answers cost calls of a model.
    """
    attempts = stage_attempts(state, stage)
    spent = exhausted(state, context) or part_exhausted(state, context, stage)
    if not attempts or spent or attempts[-1].evaluation.status == "unevaluable":
        return "accept"
    analysis = state.get("analysis")
    if analysis is not None and not analysis.worth_optimizing:  # the coder declined to write
        return "accept"
    repairable = _repairable(attempts, context) and not part_exhausted(state, context, "debugger")
    if not attempts[-1].evaluation.usable and repairable:
        return "repair"
    if untimed_tuning(state, context, stage, paid=paid) or at_the_floor(state, context):
        return "accept"
    if untimed_at_its_best(state, context, paid=paid):
        return "accept"
    if not_worth_its_price(state, context) or out_of_patience(state, context, stage):
        return "accept"
    optimizations_left = optimizations(attempts) < context.max_optimizations
    if state.get("best") is not None and optimizations_left and not part_exhausted(state, context, "analyst"):
        return "optimize"
    return "accept"


def cut_short(state: StageState, context: Context, stage: StageName, *, paid: bool) -> str:
    """Name the budget that ended a stage before its roles and its tuner had finished; empty where they had.

    Args:
        state: the state at the end of the stage.
        paid: whether the team's answers cost calls of a model.
    """
    whole = exhausted(state, context)
    budget = whole or part_exhausted(state, context, stage)
    if not budget or state.get("withheld"):
        return budget
    best, analysis = state.get("best"), state.get("analysis")
    knobs = {} if best is None else swept_knobs(best.space, stage, context)
    swept = any(sweep.stage == stage for sweep in state.get("sweeps", []))
    if whole and context.tune and context.max_configs > 1 and not swept and any(len(v) > 1 for v in knobs.values()):
        return budget
    if analysis is not None and (not analysis.worth_optimizing or analysis.by == "sweep"):
        return ""
    free = without_budgets(context)
    if exhausted(state, free):  # by more attempts than any run may make
        return budget
    written = [attempt for attempt in state.get("attempts", []) if attempt.candidate.mode != "tune"]
    state = {**state, "attempts": written}
    if stage_attempts(state, stage):
        return "" if after_evaluation(state, free, stage, paid=paid) == "accept" else budget
    return budget if after_opening(state, free, stage, paid=paid) in ("seed", "judge", "optimize") else ""
