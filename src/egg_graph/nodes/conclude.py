"""The last node: choose the kernel to hand over, and write the verdict."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from langgraph.runtime import Runtime

from egg_graph.budgets import reached
from egg_graph.context import Context, resolve
from egg_graph.nodes.announce import announced
from egg_graph.nodes.events import Event, numbers
from egg_graph.nodes.learning import learn
from egg_graph.nodes.roles import TUNER, USER, hand_in
from egg_graph.nodes.seconds import count_seconds
from egg_graph.nodes.services import Services
from egg_graph.nodes.summary import AT_ITS_BEST, TOO_DEAR
from egg_graph.routing import at_the_floor, contender_of, evaluation_of, evaluation_of_best, exhausted, floor_factor
from egg_graph.schema import Baseline, Candidate, Evaluation, KernelTask, Profile, Status
from egg_graph.state import OutputState, RunStatus, State

_SLOW = {"slower": "slower", "inconclusive": "not faster with confidence", "correct": "no speed of it is told"}
"""How a right kernel that is not handed over compares with PyTorch, by status."""
FINALISTS = 3
"""Most kernels that are evaluated as finalists, the best first, before the reference is kept."""


class Choice(NamedTuple):
    """The kernel that a run hands over, if there is one."""

    best: Candidate | None
    evaluation: Evaluation | None
    notes: list[str]
    """Lines on kernels that were not chosen, and on how the chosen one was finished."""
    not_faster: str = ""
    """Why the best kernel, which is right, is not handed over; empty where it is, or is not right."""
    judged: dict[str, Evaluation] = {}
    """The finalists' evaluations, by `Candidate.program` of the kernel that stood first."""
    finalists: dict[str, Status] = {}
    """Status of each finalist, by `Candidate.id`; of one that was known to be no faster, what it was judged before."""


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
        best, evaluation, notes, not_faster, judged, finalists = await self._choose_finalist(context, state)
        status, verdict = write_verdict(state, context, best, evaluation, notes, not_faster)
        figures = Event() if evaluation is None else numbers(evaluation)
        runtime.stream_writer(Event(event="verdict", status=status, reason=verdict, **figures))
        await learn(runtime, context, state, judged)
        return OutputState(
            status=status,
            verdict=verdict,
            kernel="" if best is None else best.source,
            best=best,
            evaluation=evaluation,
            finalists=finalists,
            profile=Profile(source="none") if evaluation is None else evaluation.profile,
        )

    async def _choose_finalist(self, context: Context, state: State) -> Choice:
        """The first finalist that passes a finalist's checks, if it is as fast as the run demands."""
        notes: list[str] = []
        judged: dict[str, Evaluation] = {}
        finalists: dict[str, Status] = {}
        choice = partial(Choice, notes=notes, judged=judged, finalists=finalists)
        for finalist in _finalists(state)[:FINALISTS]:
            known = evaluation_of(state, finalist.id)
            if context.accept == "faster" and known is not None and _is_not_faster(known):
                finalists[finalist.id] = known.status
                return choice(None, None, not_faster=_not_faster(finalist, known))
            candidate, evaluation, note = await self._finish(context, state["task"], finalist)
            judged[finalist.program], finalists[finalist.id] = evaluation, evaluation.status
            if evaluation.usable and not _fast_enough(evaluation, state, context):
                return choice(None, None, not_faster=_not_faster(finalist, evaluation))
            if evaluation.usable:
                return choice(candidate, evaluation, notes=[*notes, note] if note else notes, not_faster="")
            notes.append(
                f"kernel {finalist.id} stood first, but a finalist's checks rejected it: {evaluation.status}: "
                f"{evaluation.reason}"
            )
        return choice(None, None, not_faster="")

    async def _finish(self, context: Context, task: KernelTask, best: Candidate) -> tuple[Candidate, Evaluation, str]:
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
            evaluation = await self.services.evaluate(context, task, finished, best.stage, finalist=True)
            if evaluation.usable:
                return finished, evaluation, ""
            note = f"CONFIG is left in place: with plain constants {evaluation.status}: {evaluation.reason}"
        return best, await self.services.evaluate(context, task, best, best.stage, finalist=True), note


def _finalists(state: State) -> list[Candidate]:
    """Kernels that may be handed over: the best, then the other usable ones by merit, each once."""
    best = state.get("best")
    if best is None or state["baseline"].unevaluable:
        return []
    if evaluation_of_best(state) is None:
        best = hand_in(best, best.stage)
    usable = sorted((a for a in state.get("attempts", []) if a.evaluation.usable), key=lambda a: a.evaluation.merit)
    others = {a.candidate.id: a.candidate for a in usable if a.candidate.id != best.id}
    return [best, *others.values()]


def _fast_enough(evaluation: Evaluation, state: State, context: Context) -> bool:
    """Whether a right kernel is handed over: it is faster with confidence, nothing is timed here, or any is wanted."""
    untimed = evaluation.timing is None and state["baseline"].eager_ms is None
    return context.accept == "right" or untimed or evaluation.status == "faster"


def _is_not_faster(known: Evaluation) -> bool:
    """Whether a kernel was measured already as no faster than PyTorch: a finalist's checks would change nothing."""
    tied = known.status == "inconclusive" and known.timing is not None and not known.timing.may_be_faster
    return known.status == "slower" or tied


def _not_faster(candidate: Candidate, evaluation: Evaluation) -> str:
    """One line on a right kernel that is not handed over."""
    speed = _speed(evaluation) or evaluation.reason
    return f"the best kernel ({candidate.id}) is right, but {_SLOW[evaluation.status]}: {speed}"


def write_verdict(
    state: State,
    context: Context,
    best: Candidate | None,
    evaluation: Evaluation | None,
    notes: Sequence[str] = (),
    not_faster: str = "",
) -> tuple[RunStatus, str]:
    """Status and text with which a run ends.

    Args:
        best: the kernel that is handed over; None where the reference is kept.
        evaluation: the evaluation of `best`.
        notes: lines on how `best` was chosen.
        not_faster: why the best kernel, which is right, is not handed over.
    """
    baseline = state["baseline"]
    if baseline.unevaluable:
        return "unevaluable", f"No kernel can be judged against this reference: {baseline.unevaluable}"
    if best is None or evaluation is None:
        return "reference_kept", advised(baseline, None, _reference_kept(state, context, notes, not_faster))
    lines = [_headline(evaluation), *(f"  proven: {line}" for line in evaluation.proven)]
    lines += [f"  not proven: {line}" for line in evaluation.not_proven]
    lines += [f"  not preserved: {line}" for line in evaluation.not_preserved]
    lines += [f"  {note}" for note in notes]
    if best.author == USER:
        lines.append("  a person wrote or edited this kernel")
    if _is_contenders(state, best):
        lines.append("  the embedded expert wrote this kernel, before a model was asked: no kernel of the team beat it")
    factor = floor_factor(state)
    if factor is not None and at_the_floor(state, context):
        lines.append(f"  no further optimization was planned: the kernel takes {factor:.2f} times the task's floor")
    ends = [summary.left for summary in state.get("summaries", []) if summary.left.startswith((TOO_DEAR, AT_ITS_BEST))]
    lines += [f"  no further optimization was planned: {line}" for line in ends[-1:]]
    if any(summary.outcome == "skipped" for summary in state.get("summaries", [])):
        lines.append("  hardware tuning was skipped: nothing is timed here, so no gain could be shown")
    if stopped := _stopped(state, context):
        lines.append(f"  the run stopped early: {stopped}")
    whole = exhausted(state, context)
    lines += [f"  a part ended early: {budget}" for budget in reached(state, context) if budget != whole]
    return evaluation.status, advised(baseline, evaluation, "\n".join(lines))


def advised(baseline: Baseline, evaluation: Evaluation | None, verdict: str) -> str:
    """The verdict with what tuned PyTorch comes to; first what to set, where that gives most of the gain.

    Args:
        baseline: holds tuned PyTorch, where that was asked for.
        evaluation: of the kernel that is handed over; None where the reference is kept.
        verdict: the text so far.
    """
    tuned, timing = baseline.tuned, None if evaluation is None else evaluation.timing
    if tuned is None:
        return verdict
    headline, *lines = verdict.splitlines()
    advice = tuned.advice(None if timing is None else timing.ratio)
    first = f"{advice[:1].upper()}{advice[1:]}. " if advice else ""
    told = tuned.tell(None if timing is None else timing.candidate_ms)
    failed = () if tuned.milliseconds is None else tuned.failures
    return "\n".join([first + headline, *(f"  {line}" for line in (told, *failed, *tuned.untried)), *lines])


def _stopped(state: State, context: Context) -> str:
    """The budget of the run that is used up; empty where no stage had anything left to do."""
    return exhausted(state, context) if any(s.cut_short for s in state.get("summaries", [])) else ""


def _is_contenders(state: State, best: Candidate) -> bool:
    """True where the kernel is the contender, or the contender with other knobs or plain constants."""
    contender = contender_of(state)
    if contender is None:
        return False
    candidates = {a.candidate.id: a.candidate for a in state["attempts"]}
    kernel: Candidate | None = best
    while kernel is not None and kernel.author in (contender.candidate.author, TUNER):
        if kernel.id == contender.candidate.id:
            return True
        kernel = candidates.get(kernel.parent or "")
    return False


def _headline(evaluation: Evaluation) -> str:
    bound = evaluation.bound
    if speed := _speed(evaluation):
        advice = " Keep the reference: the kernel is right, but slower." if evaluation.status == "slower" else ""
        return f"Accepted as {evaluation.status}: {speed}.{advice}"
    if bound is not None:
        lower = f"its lower bound on the target is {bound.milliseconds:.4g} ms ({bound.limiter})"
        return f"Accepted as {evaluation.status}: {lower}; no speed was measured."
    return f"Accepted as {evaluation.status}: no speed was measured."


def _speed(evaluation: Evaluation) -> str:
    """Both times and their ratio; empty where no GPU timed them."""
    timing = evaluation.timing
    if timing is None:
        return ""
    compiled = timing.baseline == "compile" and timing.compile_ms is not None
    return (
        f"{timing.candidate_ms:.4g} ms against {timing.compile_ms if compiled else timing.eager_ms:.4g} ms of "
        f"PyTorch ({timing.baseline}) at equal precision: {timing.ratio:.2f}x, "
        f"95 % interval {timing.ratio_low:.2f} to {timing.ratio_high:.2f}"
    )


def _reference_kept(state: State, context: Context, notes: Sequence[str], not_faster: str) -> str:
    attempts = state.get("attempts", [])
    budget = _stopped(state, context)
    if not attempts:
        declined = [s.left for s in state.get("summaries", []) if s.outcome == "no_kernel"]
        if declined:
            return f"The reference is kept: {declined[0]}; a chat model can try: optimize --model NAME (model='NAME')"
        return f"The reference is kept: no attempt was made ({budget or 'no stage was to run'})."
    if not_faster:
        headline = f"The reference is kept: {not_faster}"
        notes = [*notes, "--accept right (accept='right') hands over a right kernel all the same"]
    elif notes:
        headline = f"The reference is kept: no kernel of {len(attempts)} attempts passed a finalist's checks"
    else:
        headline = f"The reference is kept: none of {len(attempts)} attempts gave a usable kernel"
    lines = [headline + (f" ({budget})." if budget else "."), *(f"  {note}" for note in notes)]
    return "\n".join(
        [*lines, *(f"  attempt {a.number}: {a.evaluation.status}: {a.evaluation.reason}" for a in attempts)]
    )
