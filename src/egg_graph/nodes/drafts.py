"""Drafts side by side: how many are ordered, and what is left of them when they are written."""

import uuid
from collections.abc import Sequence

from egg_graph.budgets import add_cost, room_for
from egg_graph.context import Context
from egg_graph.schema import Analysis, Mode, SideBySide, SideDraft, StageName, Usage
from egg_graph.state import OVERWRITE, StageState


def order_drafts(state: StageState, context: Context, stage: StageName, *, paid: bool) -> tuple[StageState | None, str]:
    """Order as many drafts as the knob `width` says and the budgets of attempts and requests leave room for.

    A repair is written by one coder.

    Args:
        paid: whether each draft costs a request to a model at least.

    Returns:
        What changes, None where one coder drafts alone; and what is told, which is empty where one was to.
    """
    if state.get("mode") == "repair" or context.width == 1:
        return None, ""
    room = room_for(state, context, stage, "coder", paid=paid)
    drafts = max(1, min(context.width, room))
    told = f"{drafts} draft{'s side by side' if drafts > 1 else ''}"
    if drafts < context.width:
        told += f", of {context.width}: the budgets leave room for no more"
    if drafts == 1:
        return None, told
    ordered = SideBySide(key=uuid.uuid4().hex, drafts=drafts)
    return StageState(side_by_side=ordered, drafts=_replace([])), told


def gather_drafts(state: StageState, stage: StageName) -> tuple[StageState, list[tuple[int, str]]]:
    """Drop the drafts that brought no kernel, or the same program as one before them; book what all of them cost.

    Where none is left, the stage goes on as after a coder that wrote nothing.

    Returns:
        What changes, and of each draft that is dropped the number and why.
    """
    written = state.get("drafts", [])
    kept, dropped = _sort_out(written)
    total = sum((draft.usage for draft in written), Usage())
    update: StageState = {
        **add_cost(state, stage, "coder", total),
        "seconds": state.get("seconds", 0.0) + max((draft.seconds for draft in written), default=0.0),
        "withheld": _withheld(written),
    }
    if kept:
        rest = sum((draft.usage for draft in written if draft.candidate is None), Usage())
        first = kept[0].model_copy(update={"usage": kept[0].usage + rest})
        return {**update, "drafts": _replace([first, *kept[1:]])}, dropped
    update |= {**clear_drafts(), "pending": state.get("pending", Usage()) + total}
    if declined := next((draft.declined for draft in written if draft.declined), ""):
        update["analysis"] = declined_plan(state.get("analysis"), state.get("mode") or "seed", declined)
    return update, dropped


def declined_plan(analysis: Analysis | None, mode: Mode, why: str) -> Analysis:
    """The analysis after its plan, or a kernel at all, was declined: nothing more is worth it in this stage."""
    if analysis is None:
        return Analysis(worth_optimizing=False, bottleneck=why)
    root_cause = f"the plan {analysis.plan!r} was not tried: {why}" if mode == "optimize" else why
    return analysis.model_copy(update={"worth_optimizing": False, "root_cause": root_cause})


def clear_drafts() -> StageState:
    """What changes when no draft is left to judge."""
    return StageState(side_by_side=None, drafts=_replace([]))


def _replace(drafts: list[SideDraft]) -> list[SideDraft]:
    return {OVERWRITE: drafts}  # type: ignore[return-value]


def _sort_out(written: Sequence[SideDraft]) -> tuple[list[SideDraft], list[tuple[int, str]]]:
    """The first draft of each program, with the cost of those that repeat it; and why the others are dropped."""
    kept: dict[str, SideDraft] = {}
    dropped = []
    for draft in written:
        if draft.candidate is None:
            dropped.append((draft.number, draft.declined or f"not written: {draft.withheld}"))
            continue
        program = draft.candidate.program
        if first := kept.get(program):
            kept[program] = first.model_copy(update={"usage": first.usage + draft.usage})
            dropped.append((draft.number, f"the same program as draft {first.number}"))
        else:
            kept[program] = draft
    return list(kept.values()), dropped


def _withheld(written: Sequence[SideDraft]) -> str:
    """The budget that forbade asking for a usable draft; empty where there is one all the same."""
    if any(draft.candidate is not None and not draft.candidate.problem for draft in written):
        return ""
    return next((draft.withheld for draft in written if draft.withheld), "")
