"""Make the brief of each role from the state of the run.

Every brief holds the task, the baseline, what ranks kernels here, the stage's objective, the contender to beat, the
best kernel with its evaluation, the summaries of the finished stages, the tuner's sweeps, the attempts of this stage
as chains, the metrics that were measured in the run and what is left of its limits; and the lessons of similar
problems, which are told where the principles are. Beyond that:

| role | kernel at hand | analysis | diagnosis | principles, with scores | playbooks' guidance |
| --- | --- | --- | --- | --- | --- |
| analyst | the best kernel | the stage's last one | no | those that match | yes |
| coder, seed | none | no | no | those that match | yes |
| coder, optimize | the best kernel | the plan to follow | no | those it names, else those that match | yes |
| coder, repair | the broken one, its origin | the plan it was made by | the one to follow | no | no |
| debugger | the broken one, its origin | the plan it was made by | the last, if it did not help | no | no |
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from egg_graph.budgets import gpu_seconds
from egg_graph.context import Context
from egg_graph.nodes.history import read_chains, right_ancestor
from egg_graph.nodes.improvement import acceptance_rule, read_metrics
from egg_graph.routing import (
    contender_of,
    evaluation_of_best,
    next_number,
    optimizations,
    repairs_in_a_row,
    stage_attempts,
    timed,
    tried,
)
from egg_graph.schema import (
    AnalystBrief,
    Attempt,
    CoderBrief,
    DebuggerBrief,
    Evaluation,
    OptimizeBrief,
    Principle,
    PrincipleScore,
    Remaining,
    RepairBrief,
    SeedBrief,
    Usage,
)
from egg_graph.stages import Stage
from egg_graph.state import StageState


class Knowledge(NamedTuple):
    """What is known beside the kernels of the run."""

    principles: tuple[Principle, ...] = ()
    """Those that match, the most relevant first."""
    scores: tuple[PrincipleScore, ...] = ()
    """What came of the principles that the run has followed."""
    guidance: Mapping[str, str] = {}
    """What the playbooks say about the reference's operators, by playbook."""

    @property
    def told(self) -> dict[str, Any]:
        """The fields of a brief; of the scores those of its principles."""
        ids = {principle.id for principle in self.principles}
        scores = tuple(score for score in self.scores if score.principle in ids)
        return {"principles": self.principles, "scores": scores, "guidance": dict(self.guidance)}


def analyst_brief(state: StageState, stage: Stage, context: Context, knowledge: Knowledge) -> AnalystBrief:
    return AnalystBrief(
        **_common(state, stage, context),
        **_best_at_hand(state),
        analysis=state.get("analysis"),
        drafts=context.width,
        **knowledge.told,
    )


def coder_brief(state: StageState, stage: Stage, context: Context, knowledge: Knowledge) -> CoderBrief:
    """The brief of the coder in `state["mode"]`; in seed mode while no role has answered."""
    match state.get("mode") or "seed":
        case "repair":
            diagnosis = state.get("diagnosis")
            assert diagnosis is not None, "the debugger stands before a repair"
            return RepairBrief(**_broken(state, stage, context), diagnosis=diagnosis)
        case "optimize":
            analysis = state.get("analysis")
            assert analysis is not None, "the analyst stands before an optimization"
            named = tuple(p for p in knowledge.principles if p.id in analysis.principles)
            return OptimizeBrief(
                **_common(state, stage, context),
                **_best_at_hand(state),
                analysis=analysis,
                **knowledge._replace(principles=named or knowledge.principles).told,
            )
    return SeedBrief(**_common(state, stage, context), **knowledge.told)


def debugger_brief(state: StageState, stage: Stage, context: Context) -> DebuggerBrief:
    return DebuggerBrief(**_broken(state, stage, context), diagnosis=state.get("diagnosis"))


def known_attempts(state: StageState, stage: Stage, context: Context) -> list[Attempt]:
    """The attempts that a stage may learn from: all of the run, or only its own where the knobs say so."""
    return state.get("attempts", []) if context.inter_stage_context else stage_attempts(state, stage.name)


def _common(state: StageState, stage: Stage, context: Context) -> dict[str, Any]:
    attempts, best = state.get("attempts", []), state.get("best")
    of_stage = stage_attempts(state, stage.name)
    return {
        "task": state["task"],
        "baseline": state["baseline"],
        "stage": stage.name,
        "attempt": next_number(state),
        "objective": stage.objective,
        "ranked_by": acceptance_rule(timed(state), context.accept),
        "metrics": stage.metrics,
        "measurable": _measured(state),
        "contender": contender_of(state),
        "best": best,
        "best_evaluation": evaluation_of_best(state),
        "summaries": tuple(state.get("summaries", [])) if context.inter_stage_context else (),
        "sweeps": tuple(s for s in state.get("sweeps", []) if context.inter_stage_context or s.stage == stage.name),
        "attempts": tuple(of_stage),
        "chains": read_chains(attempts, best, stage.name),
        "lessons": tuple(lesson for lesson in state.get("lessons", []) if lesson.stage == stage.name),
        "remaining": _remaining(state, of_stage, context),
    }


def _best_at_hand(state: StageState) -> dict[str, Any]:
    return {"kernel": state["best"], "evaluation": evaluation_of_best(state)}


def _broken(state: StageState, stage: Stage, context: Context) -> dict[str, Any]:
    """The latest candidate, which is broken, and what it came from."""
    common = _common(state, stage, context)
    broken = common["attempts"][-1]
    return {
        **common,
        "kernel": broken.candidate,
        "evaluation": broken.evaluation,
        "origin": right_ancestor(broken, state["attempts"]),
        "analysis": state.get("analysis"),
    }


def _measured(state: StageState) -> tuple[str, ...]:
    """Names of the metrics that the best kernel's evaluation holds, and that of the last kernel with right answers."""
    best = evaluation_of_best(state)
    right = next((a.evaluation for a in reversed(state.get("attempts", [])) if a.evaluation.usable), None)
    known: list[Evaluation | None] = [best] if right is best else [best, right]
    return tuple(dict.fromkeys(name for e in known if e is not None for name in read_metrics(e)))


def _remaining(state: StageState, attempts: list[Attempt], context: Context) -> Remaining:
    """What is left of the limits of the run, and of those of a stage with these attempts."""
    usage = state.get("usage", Usage())
    broken = bool(attempts) and not attempts[-1].evaluation.usable
    return Remaining(
        attempts=max(0, context.max_attempts - len(tried(state))),
        seconds=max(0.0, context.max_seconds - state.get("seconds", 0.0)),
        optimizations=max(0, context.max_optimizations - optimizations(attempts)),
        repairs=max(0, context.max_repairs - (repairs_in_a_row(attempts) if broken else 0)),
        tokens=max(0, context.max_tokens - usage.tokens) if context.max_tokens else None,
        calls=max(0, context.max_calls - usage.calls) if context.max_calls else None,
        dollars=max(0.0, context.max_dollars - usage.dollars) if context.max_dollars else None,
        gpu_seconds=max(0.0, context.max_gpu_seconds - gpu_seconds(state)) if context.max_gpu_seconds else None,
    )
