"""The nodes before the stages: prepare the task, establish the baseline."""

import ast
from dataclasses import dataclass
from pathlib import Path

from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from egg_graph.context import Context, choose_target, resolve, save_knobs
from egg_graph.nodes.announce import announced
from egg_graph.nodes.events import baseline_event
from egg_graph.nodes.seconds import count_seconds
from egg_graph.nodes.services import Services
from egg_graph.schema import BadInput, KernelTask, Profile, Usage
from egg_graph.state import OutputState, State


@dataclass
class PrepareNodes:
    """The first two nodes of the outer graph."""

    services: Services

    @announced
    @count_seconds
    def prepare(self, state: State, runtime: Runtime[Context]) -> OutputState:
        """Build the task, keep the run's knobs, and clear what an earlier run left on the same thread.

        Raises:
            BadInput: if there is no readable reference, or the team's model cannot be loaded.
        """
        self.services.get_team()  # refuse it now, before the seconds of a baseline
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
            knobs=save_knobs(context),
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
            seconds=0.0,
        )

    @announced
    @count_seconds
    def baseline(self, state: State, runtime: Runtime[Context]) -> OutputState:
        """Run and measure the reference itself, once."""
        baseline = self.services.get_evaluator(resolve(runtime.context, state)).baseline(state["task"])
        runtime.stream_writer(baseline_event(baseline))
        return OutputState(baseline=baseline)


def read_reference(reference: object, name: str | None) -> tuple[str, str]:
    """Read the reference, and check that it is Python.

    Args:
        reference: source text, or the path of a .py file.
        name: what to call the task; None for the file's name.

    Returns:
        The task's name and the source text.

    Raises:
        BadInput: if the reference is missing, unreadable or no Python.
    """
    if isinstance(reference, Path):
        reference = str(reference)
    if not isinstance(reference, str) or not reference.strip():
        raise BadInput(
            "input key 'reference' is missing or empty: pass a module's source text or the path of a .py file"
        )
    source, stem = reference, "reference"
    if "\n" not in reference and reference.strip().endswith(".py"):
        path = Path(reference.strip()).expanduser()
        stem = path.stem
        try:
            source = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"cannot read the reference {path}: {error}") from error
    try:
        ast.parse(source)
    except (SyntaxError, ValueError) as error:
        where = f"line {error.lineno}: {error.msg}" if isinstance(error, SyntaxError) else str(error)
        raise BadInput(f"the reference {name or stem!r} is no Python: {where}") from error
    return name or stem, source
