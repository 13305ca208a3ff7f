"""The last word of a run: its status, and what was proven and what was not, in words."""

from collections.abc import Sequence

from egg_graph.context import Context
from egg_graph.routing import exhausted
from egg_graph.schema import Candidate, Evaluation
from egg_graph.state import RunStatus, State


def conclude(
    state: State, context: Context, best: Candidate | None, evaluation: Evaluation | None, notes: Sequence[str] = ()
) -> tuple[RunStatus, str]:
    """Status and verdict of a run that hands over `best` (None: the reference is kept), with notes on how it came."""
    baseline = state["baseline"]
    if baseline.unevaluable:
        return "unevaluable", f"No kernel can be judged against this reference: {baseline.unevaluable}"
    if best is None or evaluation is None:
        return "reference_kept", _kept(state, context, notes)
    lines = [_headline(evaluation), *(f"  proven: {line}" for line in evaluation.proven)]
    lines += [f"  not proven: {line}" for line in evaluation.not_proven]
    lines += [f"  {note}" for note in notes]
    if stopped := exhausted(state, context):
        lines.append(f"  the run stopped early: {stopped}")
    return evaluation.status, "\n".join(lines)


def _headline(evaluation: Evaluation) -> str:
    timing, bound = evaluation.timing, evaluation.bound
    if timing is not None:
        compiled = timing.baseline == "compile" and timing.compile_ms is not None
        told = (
            f"{timing.candidate_ms:.4g} ms against {timing.compile_ms if compiled else timing.eager_ms:.4g} ms of "
            f"PyTorch ({timing.baseline}) at equal precision: {timing.ratio:.2f}x, "
            f"95 % interval {timing.ratio_low:.2f} to {timing.ratio_high:.2f}"
        )
        advice = " Keep the reference: the kernel is right, but slower." if evaluation.status == "slower" else ""
        return f"Accepted as {evaluation.status}: {told}.{advice}"
    if bound is not None:
        told = f"its lower bound on the target is {bound.milliseconds:.4g} ms ({bound.limiter})"
        return f"Accepted as {evaluation.status}: {told}; no speed was measured."
    return f"Accepted as {evaluation.status}: no speed was measured."


def _kept(state: State, context: Context, notes: Sequence[str]) -> str:
    attempts = state.get("attempts", [])
    why = exhausted(state, context)
    if not attempts:
        return f"The reference is kept: no attempt was made ({why or 'no stage was to run'})."
    if notes:
        headline = f"The reference is kept: no kernel of {len(attempts)} attempts passed a finalist's checks"
    else:
        headline = f"The reference is kept: none of {len(attempts)} attempts gave a usable kernel"
    lines = [headline + (f" ({why})." if why else "."), *(f"  {note}" for note in notes)]
    return "\n".join(
        [*lines, *(f"  attempt {a.number}: {a.evaluation.status}: {a.evaluation.reason}" for a in attempts)]
    )
