"""Options that several commands share. Those for a run's knobs take their text and default from `Context`."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import typer
from rich.markup import escape

from egg_graph.context import Context

DEVICE = typer.Option(help="Where to judge: on a GPU, without one, or as it comes.")
PRECISION = typer.Option(help="Precision policy; it binds both sides alike.")
DOMAIN = typer.Option(
    help="Inputs on which the kernel has to be right; nonfinite makes infinities part of them, though not NaN."
)
OUT = typer.Option(help="Results: .json, and a page .md beside it.")
MODEL = typer.Option(
    metavar="[ROLE=]NAME",
    help="Chat model that plays the team, such as openai:gpt-5 or anthropic:claude-opus-5; repeat it with "
    "analyst=, coder= or debugger= before the name to give that role another; several coder= draft side by side "
    "(--width). With handoff or handoff:FOLDER another agent, or you, answer each prompt in a file.",
    show_default="the embedded expert",
)
EVALUATOR = typer.Option(
    metavar="URL|spool:FOLDER",
    help="Who judges, if not this machine: the egg-graph serve at a URL, or egg-graph spool on a host that gets the "
    "FOLDER; spool:FOLDER,wait=0 ends the run, resumably, where there is no answer yet.",
    show_default="this machine",
    rich_help_panel="Task",
)
_FIELDS = {field.name: field for field in fields(Context)}


def knob(name: str, *flags: str, panel: str = "Budgets and knobs") -> Any:
    """A Typer option for one knob of `Context`; where it is left out, it is None and the knob keeps its default."""
    field = _FIELDS[name]
    shown = "shipped ones alone" if field.default is None else _default_text(field.default)
    text = escape(field.metadata["description"])
    return typer.Option(*flags, help=text, show_default=shown, rich_help_panel=panel)


def _default_text(default: Any) -> str:
    if isinstance(default, tuple):
        return "all four" if default else "none"
    if isinstance(default, bool):
        return "yes" if default else "no"
    return f"{default:,}" if isinstance(default, int) else str(default)


def given_knobs(options: Mapping[str, Any]) -> dict[str, Any]:
    """The knobs of a run among a command's options, those that the user gave: lists as tuples, paths as texts."""
    knobs = {name: value for name, value in options.items() if name in _FIELDS and value is not None}
    for name, value in knobs.items():
        if isinstance(value, list):
            knobs[name] = tuple(value)
        elif isinstance(value, Path):
            knobs[name] = str(value)
    return knobs


def given(**options: Any) -> dict[str, Any]:
    """The options that the user gave."""
    return {name: value for name, value in options.items() if value is not None}
