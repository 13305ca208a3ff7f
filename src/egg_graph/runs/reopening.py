"""Go on with a run that a budget ended, once that budget is raised."""

from itertools import pairwise
from typing import Any, cast

from langgraph.types import StateSnapshot

from egg_graph.budgets import reached
from egg_graph.context import Context, save_knobs
from egg_graph.schema import ROLES
from egg_graph.state import OutputState
from egg_graph.steering.compiled import EggGraph
from egg_graph.steering.topology import SEPARATOR


async def reopen(graph: EggGraph[Any, Any, Any, Any], config: Any, before: Context, after: Context) -> None:
    """Lead a run that a budget ended back to the step at which that budget changed its way, with its new knobs.

    What was done since without a model is left out: sweeps, and the choice of the finalist. A run that has not ended,
    or that none of the raised budgets ended, stays as it is.

    Args:
        before: the knobs of the run.
        after: its new knobs.
    """
    now = await graph.aget_state(config)
    if "status" not in now.values or now.tasks or now.values["status"] == "unevaluable":
        return
    if found := _where_to_go_on(await _checkpoints_until(graph, config, now), before, after):
        place, step = found
        await graph.aupdate_state(place.config, {"knobs": save_knobs(after)}, as_node=step)


async def _checkpoints_until(
    graph: EggGraph[Any, Any, Any, Any], config: Any, now: StateSnapshot
) -> list[StateSnapshot]:
    """The checkpoints that led here, the first one first. Of one that was changed by hand, the changed one."""
    known = {_id(snapshot.config): snapshot async for snapshot in graph.aget_state_history(config)}
    found = [now]
    while (parent := known.get(_id(found[-1].parent_config))) is not None:
        found.append(parent)
    changed = {_id(snapshot.parent_config) for snapshot in found if (snapshot.metadata or {}).get("source") == "update"}
    return [snapshot for snapshot in reversed(found) if _id(snapshot.config) not in changed]


def _id(config: Any) -> str:
    return "" if config is None else config["configurable"]["checkpoint_id"]


def _where_to_go_on(
    checkpoints: list[StateSnapshot], before: Context, after: Context
) -> tuple[StateSnapshot, str] | None:
    """The first checkpoint after which a budget, now raised, changed what came next, and the step to go on from."""
    for (earlier, last), here in zip(pairwise(checkpoints), checkpoints[2:], strict=False):
        step = _next(last)
        name = step.rpartition(SEPARATOR)[2]
        freed = _freed(here, before, after)
        if not freed:
            continue
        if here.values.get("side_by_side") is not None:
            continue  # until its drafts are ranked, no budget changes the way of a run
        withheld = here.values.get("withheld", "").partition(" ")[0] in freed
        not_asked = name == "coder" and here.values.get("drafted") is None
        if not_asked or (name in ROLES and withheld):
            return last, _next(earlier)
        if name in ("open", "evaluator", "rank"):  # after these the way depends on budgets
            return here, step
    return None


def _next(snapshot: StateSnapshot) -> str:
    """The step that followed a checkpoint."""
    return snapshot.next[0] if snapshot.next else ""


def _freed(snapshot: StateSnapshot, before: Context, after: Context) -> set[str]:
    """The budgets that were used up and are not any more."""
    state = cast(OutputState, snapshot.values)
    then, now = ({line.partition(" ")[0] for line in reached(state, knobs)} for knobs in (before, after))
    return then - now
