"""The last node: choose the kernel to hand over, and write the verdict."""

from collections.abc import Sequence
from dataclasses import dataclass

from langgraph.runtime import Runtime

from egg_graph.context import Context, resolve
from egg_graph.nodes.announce import announced
from egg_graph.nodes.calls_told import call_told
from egg_graph.nodes.events import Event, numbers
from egg_graph.nodes.roles import USER, hand_in
from egg_graph.nodes.seconds import count_seconds
from egg_graph.nodes.services import Services
from egg_graph.routing import evaluation_of_best, exhausted
from egg_graph.schema import Candidate, Evaluation, KernelTask, Profile
from egg_graph.state import OutputState, RunStatus, State

FINALISTS = 3
"""Most kernels that are evaluated as finalists, the best first, before the reference is kept."""


@dataclass
class ConcludeNode:
    """The last node of the outer graph."""

    services: Services

    @announced
    @count_seconds
    async def conclude(self, state: State, runtime: Runtime[Context]) -> OutputState:
        """Hand over the best kernel that passes a finalist's checks, with the verdict; else keep the reference.

        The kernel is handed over with plain constants in place of its CONFIG.
        """
        context = resolve(runtime.context, state)
        best, evaluation, notes = await self._choose_finalist(context, state, runtime)
        status, verdict = write_verdict(state, context, best, evaluation, notes)
        figures = Event() if evaluation is None else numbers(evaluation)
        runtime.stream_writer(Event(event="verdict", status=status, reason=verdict, **figures))
        return OutputState(
            status=status,
            verdict=verdict,
            kernel="" if best is None else best.source,
            best=best,
            evaluation=evaluation,
            profile=Profile(source="none") if evaluation is None else evaluation.profile,
        )

    async def _choose_finalist(
        self, context: Context, state: State, runtime: Runtime[Context]
    ) -> tuple[Candidate | None, Evaluation | None, list[str]]:
        """The first contender that passes a finalist's checks, its evaluation, and notes on those that did not.

        Candidate and evaluation are None where no contender passes.
        """
        notes: list[str] = []
        for contender in _contenders(state)[:FINALISTS]:
            candidate, evaluation, note = await self._finish(context, state["task"], contender, runtime)
            if evaluation.usable:
                return candidate, evaluation, [*notes, note] if note else notes
            notes.append(
                f"kernel {contender.id} stood first, but a finalist's checks rejected it: {evaluation.status}: "
                f"{evaluation.reason}"
            )
        return None, None, notes

    async def _finish(
        self, context: Context, task: KernelTask, best: Candidate, runtime: Runtime[Context]
    ) -> tuple[Candidate, Evaluation, str]:
        """Write the knobs as plain constants, and evaluate the kernel as a finalist.

        The new text is evaluated like any other candidate, so that a run hands over exactly what was evaluated. If it
        fails, the text with its CONFIG stays, and the note says so.

        Returns:
            The kernel, its evaluation, and a note (empty where the constants were written).
        """
        from egg_graph.tuning import finish

        source, note = finish(best.source), ""
        if source != best.source:
            finished = best.model_copy(
                update={"source": source, "parent": best.id, "plan": "plain constants in place of CONFIG and SPACE"}
            )
            evaluation = await self._evaluate(context, task, finished, runtime)
            if evaluation.usable:
                return finished, evaluation, ""
            note = f"CONFIG is left in place: with plain constants {evaluation.status}: {evaluation.reason}"
        return best, await self._evaluate(context, task, best, runtime), note

    async def _evaluate(
        self, context: Context, task: KernelTask, finalist: Candidate, runtime: Runtime[Context]
    ) -> Evaluation:
        with call_told(runtime, "finalist", stage=finalist.stage, candidate=finalist.id) as call:
            evaluation = await self.services.evaluate(context, task, finalist, finalist.stage, finalist=True)
            call.judged(evaluation)
        return evaluation


def _contenders(state: State) -> list[Candidate]:
    """Kernels that may be handed over: the best, then the other usable ones by merit, each once."""
    best = state.get("best")
    if best is None or state["baseline"].unevaluable:
        return []
    if evaluation_of_best(state) is None:
        best = hand_in(best, best.stage)
    usable = sorted((a for a in state.get("attempts", []) if a.evaluation.usable), key=lambda a: a.evaluation.merit)
    others = {a.candidate.id: a.candidate for a in usable if a.candidate.id != best.id}
    return [best, *others.values()]


def write_verdict(
    state: State, context: Context, best: Candidate | None, evaluation: Evaluation | None, notes: Sequence[str] = ()
) -> tuple[RunStatus, str]:
    """Status and text with which a run ends.

    Args:
        best: the kernel that is handed over; None where the reference is kept.
        evaluation: the evaluation of `best`.
        notes: lines on how `best` was chosen.
    """
    baseline = state["baseline"]
    if baseline.unevaluable:
        return "unevaluable", f"No kernel can be judged against this reference: {baseline.unevaluable}"
    if best is None or evaluation is None:
        return "reference_kept", _reference_kept(state, context, notes)
    lines = [_headline(evaluation), *(f"  proven: {line}" for line in evaluation.proven)]
    lines += [f"  not proven: {line}" for line in evaluation.not_proven]
    lines += [f"  not preserved: {line}" for line in evaluation.not_preserved]
    lines += [f"  {note}" for note in notes]
    if best.author == USER:
        lines.append("  a person wrote or edited this kernel")
    if budget := exhausted(state, context):
        lines.append(f"  the run stopped early: {budget}")
    return evaluation.status, "\n".join(lines)


def _headline(evaluation: Evaluation) -> str:
    timing, bound = evaluation.timing, evaluation.bound
    if timing is not None:
        compiled = timing.baseline == "compile" and timing.compile_ms is not None
        speed = (
            f"{timing.candidate_ms:.4g} ms against {timing.compile_ms if compiled else timing.eager_ms:.4g} ms of "
            f"PyTorch ({timing.baseline}) at equal precision: {timing.ratio:.2f}x, "
            f"95 % interval {timing.ratio_low:.2f} to {timing.ratio_high:.2f}"
        )
        advice = " Keep the reference: the kernel is right, but slower." if evaluation.status == "slower" else ""
        return f"Accepted as {evaluation.status}: {speed}.{advice}"
    if bound is not None:
        lower = f"its lower bound on the target is {bound.milliseconds:.4g} ms ({bound.limiter})"
        return f"Accepted as {evaluation.status}: {lower}; no speed was measured."
    return f"Accepted as {evaluation.status}: no speed was measured."


def _reference_kept(state: State, context: Context, notes: Sequence[str]) -> str:
    attempts = state.get("attempts", [])
    budget = exhausted(state, context)
    if not attempts:
        return f"The reference is kept: no attempt was made ({budget or 'no stage was to run'})."
    if notes:
        headline = f"The reference is kept: no kernel of {len(attempts)} attempts passed a finalist's checks"
    else:
        headline = f"The reference is kept: none of {len(attempts)} attempts gave a usable kernel"
    lines = [headline + (f" ({budget})." if budget else "."), *(f"  {note}" for note in notes)]
    return "\n".join(
        [*lines, *(f"  attempt {a.number}: {a.evaluation.status}: {a.evaluation.reason}" for a in attempts)]
    )
