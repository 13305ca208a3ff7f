"""The nodes around the stages: prepare the task, establish the baseline, conclude."""

import ast
from dataclasses import dataclass
from pathlib import Path

from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from egg_graph.context import Context, resolve
from egg_graph.nodes.clock import clocked
from egg_graph.nodes.conclude import conclude as tell
from egg_graph.nodes.events import Event, baseline_event, numbers
from egg_graph.nodes.services import Parts
from egg_graph.schema import BadInput, Candidate, Evaluation, KernelTask, Profile, Usage
from egg_graph.state import OutputState, State
from egg_graph.target import choose_target

FINALISTS = 3
"""Kernels that are tried as finalists, the best first, before the reference is kept."""


@dataclass
class FrameNodes:
    """Nodes of the outer graph."""

    parts: Parts

    @clocked
    def prepare(self, state: State, runtime: Runtime[Context]) -> OutputState:
        """Build the task, and clear what an earlier run on the same thread left.

        Raises:
            BadInput: if there is no readable reference.
        """
        context = resolve(runtime.context)
        name, source = read_reference(state.get("reference"), state.get("name"))
        task = KernelTask(
            name=name,
            reference=source,
            target=choose_target(context.target, context.knowledge_dir),
            precision=context.precision,
            triton_only=context.triton_only,
        )
        return OutputState(
            task=task,
            verdict="",
            kernel="",
            best=None,
            evaluation=None,
            candidate=None,
            profile=Profile(source="none"),
            analysis=None,
            diagnosis=None,
            attempts=Overwrite([]),  # type: ignore[typeddict-item]
            summaries=Overwrite([]),  # type: ignore[typeddict-item]
            usage=Usage(),
        )

    @clocked
    def baseline(self, state: State, runtime: Runtime[Context]) -> OutputState:
        """Run and measure the reference itself, once."""
        baseline = self.parts.the_evaluator(resolve(runtime.context)).baseline(state["task"])
        runtime.stream_writer(baseline_event(baseline))
        return OutputState(baseline=baseline)

    @clocked
    def conclude(self, state: State, runtime: Runtime[Context]) -> OutputState:
        """Hand over the best kernel that passes a finalist's checks, as a person would write it, with the verdict; or
        keep the reference and say so."""
        context = resolve(runtime.context)
        best, evaluation, notes = self._finalist(context, state)
        status, verdict = tell(state, context, best, evaluation, notes)
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

    def _finalist(self, context: Context, state: State) -> tuple[Candidate | None, Evaluation | None, list[str]]:
        """The kernel to hand over with its evaluation, and notes: the best one, or the next best where a finalist's
        checks reject it. None where they reject all that were tried."""
        notes: list[str] = []
        for contender in _contenders(state)[:FINALISTS]:
            candidate, evaluation, note = self._finished(context, state["task"], contender)
            if evaluation.usable:
                return candidate, evaluation, [*notes, note] if note else notes
            notes.append(
                f"kernel {contender.id} stood first, but a finalist's checks rejected it: {evaluation.status}: "
                f"{evaluation.reason}"
            )
        return None, None, notes

    def _finished(self, context: Context, task: KernelTask, best: Candidate) -> tuple[Candidate, Evaluation, str]:
        """The kernel with its knobs as plain constants, its evaluation as a finalist, and a note on its text.

        It is another text, so it is judged like any other candidate: what a run hands over is exactly what was
        evaluated. Should it fail, the text with its CONFIG stays, and the note says so.
        """
        from egg_graph.tuning import finish

        source, note = finish(best.source), ""
        if source != best.source:
            finished = best.model_copy(
                update={"source": source, "parent": best.id, "plan": "plain constants in place of CONFIG and SPACE"}
            )
            judged = self.parts.judge(context, task, finished, best.stage, finalist=True)
            if judged.usable:
                return finished, judged, ""
            note = f"CONFIG is left in place: with plain constants {judged.status}: {judged.reason}"
        return best, self.parts.judge(context, task, best, best.stage, finalist=True), note


def _contenders(state: State) -> list[Candidate]:
    """Kernels that may be handed over: the best, then the other usable ones by merit, each once."""
    best = state.get("best")
    if best is None:
        return []
    usable = sorted((a for a in state.get("attempts", []) if a.evaluation.usable), key=lambda a: a.evaluation.merit)
    others = {a.candidate.id: a.candidate for a in usable if a.candidate.id != best.id}
    return [best, *others.values()]


def read_reference(reference: object, name: str | None) -> tuple[str, str]:
    """Name and source text of the reference.

    Args:
        reference: source text, or the path of a .py file.
        name: what to call it; None for the file's name.

    Raises:
        BadInput: if it is missing, unreadable or no Python.
    """
    if isinstance(reference, Path):
        reference = str(reference)
    if not isinstance(reference, str) or not reference.strip():
        raise BadInput(
            "input key 'reference' is missing or empty: pass a module's source text or the path of a .py file"
        )
    source, called = reference, "reference"
    if "\n" not in reference and reference.strip().endswith(".py"):
        path = Path(reference.strip()).expanduser()
        called = path.stem
        try:
            source = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"cannot read the reference {path}: {error}") from error
    try:
        ast.parse(source)
    except (SyntaxError, ValueError) as error:
        where = f"line {error.lineno}: {error.msg}" if isinstance(error, SyntaxError) else str(error)
        raise BadInput(f"the reference {name or called!r} is no Python: {where}") from error
    return name or called, source
