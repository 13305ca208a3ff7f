"""The nodes before the stages: prepare the task, establish the baseline."""

from dataclasses import dataclass
from pathlib import Path

from langgraph.runtime import Runtime

from egg_graph.context import Context, choose_target, read_budgets, resolve, save_knobs
from egg_graph.nodes.announce import LOG, announced
from egg_graph.nodes.call_ledger import ledger_entry
from egg_graph.nodes.events import baseline_event
from egg_graph.nodes.learning import recall
from egg_graph.nodes.roles import USER, hand_in
from egg_graph.nodes.seconds import count_seconds
from egg_graph.nodes.services import Services
from egg_graph.routing import wants_contender
from egg_graph.schema import BadInput, Candidate, KernelTask, Profile, Usage
from egg_graph.schema.syntax import UNREADABLE, syntax_tree
from egg_graph.state import OVERWRITE, OutputState, State
from egg_graph.team import Team, check_width, get_ready, model_prices

LINE_SHOWN = 80
"""Most characters of a line that an error shows."""


@dataclass
class PrepareNodes:
    """The first two nodes of the outer graph."""

    services: Services

    @announced
    @count_seconds
    async def prepare(self, state: State, runtime: Runtime[Context]) -> State:
        """Build the task, keep the run's knobs, and clear what an earlier run left on the same thread.

        A kernel that was handed in becomes the best one, not judged yet.

        Raises:
            BadInput: if there is no readable reference, if what was handed in cannot be read, or if the team's model
                cannot be loaded.
        """
        team = self.services.get_team()  # refuse it now, before the seconds of a baseline
        context = resolve(runtime.context)
        if unpriced := check_prices(team, context):
            LOG.info("the price of %s is not known: the run's cost leaves it out", ", ".join(unpriced))
        check_width(team, context.width)
        task = make_task(state.get("reference"), state.get("name"), await self.services.aim(context))
        kernel = read_kernel(state.get("kernel"))
        seed = Candidate(source=kernel, author=USER, stage="algorithmic_structure", mode="seed")
        return State(
            plan=read_plan(state.get("plan")),
            knobs=save_knobs(context),
            task=task,
            verdict="",
            kernel="",
            best=hand_in(seed, seed.stage) if kernel else None,
            evaluation=None,
            finalists={},
            candidate=None,
            profile=Profile(source="none"),
            analysis=None,
            diagnosis=None,
            attempts={OVERWRITE: []},  # type: ignore[typeddict-item]
            summaries={OVERWRITE: []},  # type: ignore[typeddict-item]
            sweeps={OVERWRITE: []},  # type: ignore[typeddict-item]
            lessons=[],
            usage=Usage(),
            costs={},
            seconds=0.0,
        )

    @announced
    @count_seconds
    async def baseline(self, state: State, runtime: Runtime[Context]) -> OutputState:
        """Run and measure the reference itself, once, and recall what was measured on problems like it."""
        context = resolve(runtime.context, state)
        get_ready(self.services.get_team(), state["task"])
        if wants_contender(state, context, paid=self.services.paid):
            get_ready(self.services.get_expert(), state["task"])
        with ledger_entry("baseline") as call:
            baseline = await self.services.establish_baseline(context, state["task"])
            call.spent = baseline.spent
            runtime.stream_writer(baseline_event(baseline))
        return OutputState(baseline=baseline, lessons=await recall(runtime, context, state["task"], baseline))


def check_prices(team: Team, context: Context) -> list[str]:
    """Refuse a budget or a price in money for a team that has a model whose price is not known.

    Returns:
        The names of such models, where there is no such budget.

    Raises:
        BadInput: if there is such a budget and such a model, or the user's own prices cannot be read.
    """
    limited = (
        context.max_dollars
        or context.min_gain_per_dollar
        or any(measure == "dollars" for _, measure in read_budgets(context.budgets))
    )
    prices = model_prices(team, context.knowledge_dir).values()
    unpriced = list(dict.fromkeys(name for name, price in prices if price is None))
    if limited and unpriced:
        raise BadInput(
            f"a budget of money needs prices, and that of {unpriced[0]!r} is not known: add it to prices.toml in the "
            "folder that --knowledge (knowledge_dir=) names, or limit tokens instead"
        )
    return unpriced


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
    source, stem, told = reference, "reference", repr(name or "reference")
    if path := _as_path(reference):
        source, stem, told = _read_file(path, "reference"), path.stem, str(path)
    try:
        syntax_tree(source)
    except UNREADABLE as error:
        raise BadInput(f"the reference {told} is no Python: {_where(error)}") from error
    return name or stem, source


def read_kernel(kernel: object) -> str:
    """Read a kernel that was handed in; whether it is any good is for the evaluator to say.

    Args:
        kernel: source text, the path of a .py file, or nothing.

    Raises:
        BadInput: if it is no text, or its file cannot be read.
    """
    kernel = str(kernel) if isinstance(kernel, Path) else kernel
    if not isinstance(kernel, str | None):
        raise BadInput(f"input key 'kernel' is {kernel!r:.80}: pass a kernel's source text or the path of a .py file")
    if kernel is None or not kernel.strip():
        return ""
    source = read_text(kernel, "kernel")
    if not source.strip():
        raise BadInput(f"the kernel {kernel.strip()} is empty: leave it out to have a seed written")
    return source


def make_task(reference: object, name: str | None, context: Context) -> KernelTask:
    """Make the task of a reference and a run's knobs.

    Raises:
        BadInput: if the reference cannot be read, or the target is unknown.
    """
    task_name, source = read_reference(reference, name)
    return KernelTask(
        name=task_name,
        reference=source,
        target=choose_target(context.target, context.knowledge_dir),
        precision=context.precision,
        domain=context.domain,
        triton_only=context.triton_only,
    )


def read_text(text: str, what: str) -> str:
    """Return source text as it is, and the content of a .py file for its path.

    Raises:
        BadInput: if the file cannot be read; the line calls it `what`.
    """
    path = _as_path(text)
    return _read_file(path, what) if path else text


def read_plan(plan: object) -> str:
    """Read a plan that was handed in.

    Raises:
        BadInput: if it is no text.
    """
    if not isinstance(plan, str | None):
        raise BadInput(f"input key 'plan' is {plan!r:.80}: pass a text that says what the coder should change")
    return (plan or "").strip()


def _as_path(text: str) -> Path | None:
    """The file that is meant by one line that ends in .py; None for source text."""
    return Path(text.strip()).expanduser() if "\n" not in text and text.strip().endswith(".py") else None


def _where(error: Exception) -> str:
    """What the parser says, with the line that it says it of."""
    if not isinstance(error, SyntaxError):
        return str(error) or type(error).__name__
    line = (error.text or "").strip()
    return f"line {error.lineno}: {error.msg}" + (f": {line[:LINE_SHOWN]}" if line else "")


def _read_file(path: Path, what: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read the {what} {path}: {error}") from error
