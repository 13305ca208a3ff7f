"""The terms of a run on the terminal: what goes on under which budgets, and which budget ended it."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from egg_graph.cli.console import plain
from egg_graph.context import BUDGETS, make_context
from egg_graph.team import name_models

if TYPE_CHECKING:
    from egg_graph import Run

DEFAULT_RUNS = Path("runs")


def resume_command(run: str, runs: Path) -> str:
    """The command that goes on with a run."""
    where = "" if runs == DEFAULT_RUNS else f" --runs {shlex.quote(str(runs))}"
    return f"egg-graph optimize --resume {shlex.quote(run)}{where}"


def tell_resumed(console: Console, folder: Path, model: str | dict[str, Any] | None, knobs: dict[str, Any]) -> None:
    """Print which run goes on, by whom, and under which budgets.

    Args:
        model: as it is given anew; None for the run's own.
        knobs: budgets that are given anew.

    Raises:
        BadInput: if there is no such run, or a knob is wrong.
        InfrastructureError: if its run.json is damaged.
    """
    from egg_graph.runs.folder import read_request

    request = read_request(folder)
    context = make_context({**request["context"], **knobs})
    limits = {name: getattr(context, name) for name in sorted(BUDGETS - {"budgets"}) if getattr(context, name)}
    told = [f"{name} {limit:.9g}" for name, limit in limits.items()] + list(context.budgets)
    kept = "a model or team object" if request["model"] is False else name_models(request["model"])
    team = name_models(model) if model else kept
    console.print(f"[bold]{plain(request['name'])}[/] by {plain(team)}: the run {plain(folder)} goes on")
    console.print(f"budget    {plain(', '.join(told))}", soft_wrap=True)


def tell_early_end(console: Console, run: "Run") -> None:
    """Print each budget that the verdict names as used up, with the command that goes on with more of it."""
    from egg_graph.budgets import reached
    from egg_graph.runs.folder import read_request

    context = make_context(read_request(run.folder)["context"])
    for budget in reached(run.state, context):
        if budget in run.verdict:
            command = resume_command(run.id, run.folder.parent)
            more = _option(budget.partition(" ")[0])
            console.print(f"stopped early: {plain(budget)}; go on with: {plain(command)} {more}", soft_wrap=True)


def _option(name: str) -> str:
    """The option that raises a budget: of the run (`max_calls`), or of a stage or a role (`coder.calls`)."""
    return f"--budget {name}=N" if "." in name else f"--{name.replace('_', '-')} N"
