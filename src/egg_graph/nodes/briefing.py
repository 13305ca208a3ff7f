"""Make the brief of each role from the state of the run.

Every brief holds the task, the baseline, the stage's objective, what ranks kernels here, the contender to beat, the
best kernel with its evaluation, the summaries of the finished stages, the tuner's sweeps and the attempts of this
stage. Beyond that:

| role | kernel at hand | analysis | diagnosis | principles | playbooks' guidance |
| --- | --- | --- | --- | --- | --- |
| analyst | the best kernel | the stage's last one | no | those that match | yes |
| coder, seed | none | no | no | those that match | yes |
| coder, optimize | the best kernel | the plan to follow | no | those the plan names, else those that match | yes |
| coder, repair | the broken candidate | the plan it was made by | the one to follow | no | no |
| debugger | the broken candidate | the plan it was made by | the last one, if it did not help | no | no |
"""

from collections.abc import Mapping, Sequence
from typing import Any

from egg_graph.nodes.improvement import RANKED_BY_TIME, RANKED_UNTIMED
from egg_graph.routing import contender_of, evaluation_of_best, stage_attempts, timed
from egg_graph.schema import Attempt, Brief, Principle
from egg_graph.stages import Stage
from egg_graph.state import StageState


def analyst_brief(
    state: StageState, stage: Stage, principles: Sequence[Principle], guidance: Mapping[str, str]
) -> Brief:
    return Brief(
        **_common(state, stage),
        mode="optimize",
        kernel=state["best"],
        evaluation=evaluation_of_best(state),
        analysis=state.get("analysis"),
        principles=tuple(principles),
        guidance=dict(guidance),
    )


def coder_brief(state: StageState, stage: Stage, principles: Sequence[Principle], guidance: Mapping[str, str]) -> Brief:
    """The brief of the coder in `state["mode"]`; in seed mode while no role has answered."""
    match state.get("mode") or "seed":
        case "repair":
            return repair_brief(state, stage)
        case "optimize":
            analysis = state["analysis"]
            named = tuple(p for p in principles if analysis is not None and p.id in analysis.principles)
            return Brief(
                **_common(state, stage),
                mode="optimize",
                kernel=state["best"],
                evaluation=evaluation_of_best(state),
                analysis=analysis,
                principles=named or tuple(principles),
                guidance=dict(guidance),
            )
    return Brief(
        **_common(state, stage),
        mode="seed",
        principles=tuple(principles),
        guidance=dict(guidance),
    )


def repair_brief(state: StageState, stage: Stage) -> Brief:
    """Brief the debugger, or the coder in repair mode, on the latest candidate, which is broken."""
    broken = _last(state, stage)
    return Brief(
        **_common(state, stage),
        mode="repair",
        kernel=broken.candidate,
        evaluation=broken.evaluation,
        analysis=state.get("analysis"),
        diagnosis=state.get("diagnosis"),
    )


def _common(state: StageState, stage: Stage) -> dict[str, Any]:
    return {
        "task": state["task"],
        "baseline": state["baseline"],
        "stage": stage.name,
        "objective": stage.objective,
        "ranked_by": RANKED_BY_TIME if timed(state) else RANKED_UNTIMED,
        "metrics": stage.metrics,
        "contender": contender_of(state),
        "best": state.get("best"),
        "best_evaluation": evaluation_of_best(state),
        "summaries": tuple(state.get("summaries", [])),
        "sweeps": tuple(state.get("sweeps", [])),
        "attempts": tuple(stage_attempts(state, stage.name)),
    }


def _last(state: StageState, stage: Stage) -> Attempt:
    return stage_attempts(state, stage.name)[-1]
