"""Options that stand for a run's knobs: their words and defaults come from `Context` itself."""

from dataclasses import fields
from typing import Any

import typer
from rich.markup import escape

from egg_graph.context import Context

_FIELDS = {field.name: field for field in fields(Context)}


def knob(name: str, *flags: str, panel: str = "Budgets and knobs") -> Any:
    """A Typer option for one knob of `Context`; left out, it is None, and the knob keeps its default."""
    field = _FIELDS[name]
    shown = "shipped ones alone" if field.default is None else _said(field.default)
    text = escape(field.metadata["description"])
    return typer.Option(*flags, help=text, show_default=shown, rich_help_panel=panel)


def _said(default: Any) -> str:
    if isinstance(default, tuple):
        return "all four"
    if isinstance(default, bool):
        return "yes" if default else "no"
    return f"{default:,}" if isinstance(default, int) else str(default)


def given(**options: Any) -> dict[str, Any]:
    """The options that the user gave."""
    return {name: value for name, value in options.items() if value is not None}
