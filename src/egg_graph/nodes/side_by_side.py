"""Several coders draft from one brief side by side, their drafts are judged side by side, and the best goes on.

The coder orders the drafts, the evaluator sorts them out: see `egg_graph.nodes.drafts`. Each draft and each evaluation
is a task of its own (LangGraph's `Send`), whose result a checkpoint keeps as soon as it ends.
"""

import time
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from langgraph.runtime import Runtime
from langgraph.types import Send
from pydantic import TypeAdapter
from typing_extensions import TypedDict

from egg_graph.budgets import spent_by, terms_of
from egg_graph.calls import Call
from egg_graph.context import Context, resolve
from egg_graph.model_requests import Terms, asking_under
from egg_graph.nodes.announce import announced
from egg_graph.nodes.call_ledger import ledger_entry
from egg_graph.nodes.drafts import clear_drafts
from egg_graph.nodes.events import Event, attempt_event
from egg_graph.nodes.improvement import front_runner, improves, measure_effect, undecided
from egg_graph.nodes.judging import no_code_evaluation, reused_evaluation, same_program, update_after
from egg_graph.nodes.roles import RoleNodes, make_candidate
from egg_graph.nodes.seconds import count_seconds
from egg_graph.nodes.services import Services
from egg_graph.routing import evaluation_of_best, next_number, waiting
from egg_graph.schema import (
    Attempt,
    Candidate,
    CoderBrief,
    Draft,
    Evaluation,
    KernelTask,
    Mode,
    OptimizeBrief,
    SideBySide,
    SideDraft,
    Usage,
)
from egg_graph.stages import Stage
from egg_graph.state import StageState

_BRIEF: TypeAdapter[CoderBrief] = TypeAdapter(CoderBrief)


class Order(TypedDict, total=False):
    """What one draft is written from, or judged by: the input of its task, as small as it can be."""

    first: int
    """Number of the attempt that the first of the drafts becomes."""
    draft: int
    """Number of the draft, from 1."""
    mode: Mode
    knobs: dict[str, Any]
    brief: str
    """The coder's brief, as JSON."""
    side_by_side: SideBySide
    usage: Usage
    """What the run has spent; so with `costs` and `seconds`."""
    costs: dict[str, Usage]
    seconds: float
    task: KernelTask
    drafts: list[SideDraft]
    """The draft to be judged, alone."""


@dataclass
class SideBySideNodes:
    """The nodes of one stage that drafts pass which are written side by side."""

    stage: Stage
    services: Services

    def orders(self, state: StageState, context: Context, node: str) -> list[Send]:
        """One task for each draft that was ordered, all from the same brief: each its number and, if it has, its plan.

        Args:
            node: where a draft is written.
        """
        ordered = state["side_by_side"]
        assert ordered is not None, "the coder has ordered drafts"
        brief = RoleNodes(self.stage, self.services).coder_brief(state, context)
        common = Order(first=next_number(state), mode=brief.mode, side_by_side=ordered)
        for key in ("knobs", "usage", "costs", "seconds"):
            if key in state:
                common[key] = state[key]
        sends = []
        for number in range(1, ordered.drafts + 1):
            own = brief.model_copy(update={"draft": number, "drafts": ordered.drafts})
            if isinstance(own, OptimizeBrief):
                own = own.model_copy(update={"analysis": own.analysis.for_draft(number)})
            sends.append(Send(node, {**common, "draft": number, "brief": own.model_dump_json()}))
        return sends

    def waiting(self, state: StageState, node: str) -> list[Send]:
        """One task for each draft that has to be judged.

        Args:
            node: where a draft is judged.
        """
        common = Order(first=next_number(state), mode=state.get("mode") or "seed", task=state["task"])
        if "knobs" in state:
            common["knobs"] = state["knobs"]
        return [Send(node, {**common, "draft": draft.number, "drafts": [draft]}) for draft in waiting(state)]

    @announced
    async def draft(self, order: Order, runtime: Runtime[Context]) -> StageState:
        """Write one of the drafts. None is written where the others have used up a budget meanwhile."""
        started, number = time.monotonic(), order["draft"]
        context, brief = resolve(runtime.context, order), _BRIEF.validate_json(order["brief"])
        team, costs = self.services.get_team(), self.services.costs_of(order["side_by_side"])
        terms = self._terms(order, context)
        if budget := terms.spent(Usage()):
            return StageState(drafts=[SideDraft(number=number, withheld=budget)])
        with ledger_entry("coder") as call, asking_under(terms):
            draft: Draft = await Call(team.write, brief)
            call.answered(draft.usage)
        costs.note(number, draft.usage)
        candidate = None if draft.declined else self._candidate(draft, brief, team.name)
        self._tell(draft, candidate, order, runtime)
        written = SideDraft(
            number=number,
            candidate=candidate,
            declined=draft.declined,
            withheld=draft.withheld,
            usage=draft.usage,
            seconds=time.monotonic() - started,
        )
        return StageState(drafts=[written])

    def _candidate(self, draft: Draft, brief: CoderBrief, team: str) -> Candidate:
        return make_candidate(
            draft,
            author=draft.author or team,
            stage=self.stage.name,
            mode=brief.mode,
            parent=brief.kernel,
            plan=brief.analysis.plan if isinstance(brief, OptimizeBrief) else draft.note,
        )

    def _tell(self, draft: Draft, candidate: Candidate | None, order: Order, runtime: Runtime[Context]) -> None:
        """Send what came of the draft."""
        status, told = "declined", draft.declined
        if candidate is not None:
            status, told = "no_code" if candidate.problem else "drafted", candidate.problem or candidate.plan
        about = Event(event="role", stage=self.stage.name, role="coder", attempt=order["first"], mode=order["mode"])
        runtime.stream_writer({**about, "draft": order["draft"], "status": status, "reason": told})

    def _terms(self, order: Order, context: Context) -> Terms:
        """The terms of a draft's requests: a budget counts what the drafts beside it have cost so far."""
        state: Any = order
        costs = self.services.costs_of(order["side_by_side"])

        def spent(cost: Usage) -> str:
            return costs.ask(order["draft"], cost, partial(spent_by, state, context, self.stage.name, "coder"))

        return replace(terms_of(state, context, self.stage.name, "coder"), spent=spent)

    @announced
    async def judge(self, order: Order, runtime: Runtime[Context]) -> StageState:
        """Evaluate one of the drafts. The evaluator runs side by side what it can, and what must be alone in turns."""
        started, (draft,) = time.monotonic(), order["drafts"]
        assert draft.candidate is not None, "what waits has code"
        context = resolve(runtime.context, order)
        evaluation = await self.services.evaluate(context, order["task"], draft.candidate, self.stage.name)
        judged = {"evaluation": evaluation, "seconds": time.monotonic() - started}
        return StageState(drafts=[draft.model_copy(update=judged)])

    @announced
    @count_seconds
    async def rank(self, state: StageState, runtime: Runtime[Context]) -> StageState:
        """Make an attempt of each draft, of which the best comes last: with that one the stage goes on.

        All of them come from the same kernel. Only the best may take its place.
        """
        drafts = [draft for draft in state.get("drafts", []) if draft.candidate is not None]
        repeated = [_repeated(draft, state) for draft in drafts]
        evaluations = [_evaluation(draft, known, state) for draft, known in zip(drafts, repeated, strict=True)]
        front = front_runner(evaluations)
        order = [index for index in range(len(drafts)) if index != front] + [front]
        best, first = evaluation_of_best(state), next_number(state)
        improved = improves(evaluations[front], best)
        against = evaluations[front] if improved else best
        attempts = []
        for number, index in enumerate(order, start=first):
            attempt = _attempt(drafts[index], evaluations[index], repeated[index], best, state)
            own: dict[str, Any] = {"number": number, "beside": first if len(drafts) > 1 else None}
            if index == front:
                own |= {"improved": improved, "usage": attempt.usage + state.get("pending", Usage())}
            if attempt.repeats is None and not (index == front and improved):
                own["undecided"] = undecided(evaluations[index], against)
            attempts.append(attempt.model_copy(update=own))
            runtime.stream_writer(attempt_event(attempts[-1], repeated=attempt.repeats is not None))
        update = {**update_after(attempts[-1]), "attempts": attempts, "pending": Usage(), **clear_drafts()}
        update["seconds"] = state.get("seconds", 0.0) + max(draft.seconds for draft in drafts)
        return StageState(**update)  # type: ignore[typeddict-item]


def _repeated(draft: SideDraft, state: StageState) -> Attempt | None:
    """The earlier attempt at a draft's program; None where the draft was evaluated itself, or is the first."""
    assert draft.candidate is not None, "what is ranked was written"
    return None if draft.evaluation is not None else same_program(draft.candidate, state)


def _evaluation(draft: SideDraft, known: Attempt | None, state: StageState) -> Evaluation:
    """The draft's evaluation; that of an earlier attempt at the same program; or that there is no code."""
    assert draft.candidate is not None, "what is ranked was written"
    if draft.evaluation is not None:
        return draft.evaluation
    return no_code_evaluation(draft.candidate, state) if known is None else reused_evaluation(known, draft.candidate)


def _attempt(
    draft: SideDraft, evaluation: Evaluation, known: Attempt | None, best: Evaluation | None, state: StageState
) -> Attempt:
    """The attempt of a draft, not compared with the others yet.

    Args:
        known: the earlier attempt at the same program.
        best: the evaluation of the best kernel before all drafts.
    """
    assert draft.candidate is not None, "what is ranked was written"
    analysis = state.get("analysis")
    analysis = None if analysis is None else analysis.for_draft(draft.number)
    return Attempt(
        number=draft.number,
        candidate=draft.candidate,
        evaluation=evaluation,
        analysis=analysis,
        repeats=None if known is None else known.number,
        effect=None if analysis is None else measure_effect(analysis.expected, best, evaluation),
        usage=draft.usage,
    )
