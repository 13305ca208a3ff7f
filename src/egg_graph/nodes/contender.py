"""Attempt 0: the embedded expert's kernel, judged before a call of a model is paid, is the contender to beat."""

from dataclasses import dataclass

from langgraph.runtime import Runtime

from egg_graph.context import Context, resolve
from egg_graph.nodes.announce import announced
from egg_graph.nodes.call_ledger import ledger_entry
from egg_graph.nodes.events import Event, attempt_event
from egg_graph.nodes.roles import make_candidate
from egg_graph.nodes.seconds import count_seconds
from egg_graph.nodes.services import Services
from egg_graph.schema import Attempt, Brief, Candidate, Evaluation, InfrastructureError, Usage
from egg_graph.stages import ALGORITHMIC_STRUCTURE
from egg_graph.state import OutputState


@dataclass
class ContenderNode:
    """The node that stands between the baseline and a team that chat models play."""

    services: Services

    @announced
    @count_seconds
    async def contender(self, state: OutputState, runtime: Runtime[Context]) -> OutputState:
        """Judge the embedded expert's kernel; the run goes on without it where the expert has none.

        A usable one is the best kernel from then on, so that the run never ends with a worse one.
        """
        context = resolve(runtime.context, state)
        candidate, why_none, usage = await self._draft(state, context)
        if candidate is None:
            runtime.stream_writer(Event(event="contender", status="none", reason=why_none))
            return OutputState()
        evaluation = await self.services.evaluate(context, state["task"], candidate, candidate.stage)
        attempt = Attempt(number=0, candidate=candidate, evaluation=evaluation, improved=evaluation.usable, usage=usage)
        runtime.stream_writer(attempt_event(attempt, repeated=False))
        return _judged(attempt, evaluation)

    async def _draft(self, state: OutputState, context: Context) -> tuple[Candidate | None, str, Usage]:
        """The expert's kernel, why there is none, and what it cost.

        A fault of the machine while the expert writes is told like a reference that it does not know: the run needs no
        contender.
        """
        stage = ALGORITHMIC_STRUCTURE
        brief = Brief(
            task=state["task"],
            baseline=state["baseline"],
            stage=stage.name,
            attempt=0,
            objective=stage.objective,
            mode="seed",
        )
        try:
            with ledger_entry("coder") as call:
                author, draft = await self.services.write_contender(brief, context)
                call.answered(draft.usage)
        except InfrastructureError as error:
            return None, f"the embedded expert could not write a contender: {error}", Usage()
        if draft.problem:
            return None, draft.problem, Usage()
        candidate = make_candidate(draft, author=author, stage=stage.name, mode="seed", parent=None, plan=draft.note)
        return candidate, "", draft.usage


def _judged(attempt: Attempt, evaluation: Evaluation) -> OutputState:
    update = OutputState(attempts=[attempt], candidate=attempt.candidate, profile=evaluation.profile)
    if evaluation.usable:
        update |= OutputState(best=attempt.candidate, evaluation=evaluation, kernel=attempt.candidate.source)
    return update
