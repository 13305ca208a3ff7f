"""`egg-graph doctor`: what this machine can do, what is missing, and how to mend it."""

import json
from typing import Annotated

import typer
from rich.table import Table

from egg_graph.cli.console import plain, stdout
from egg_graph.cli.examination import Item, examine, prospects

_MARKS = {
    "ok": "[green]ok[/]",
    "optional": "[dim]optional[/]",
    "missing": "[yellow]missing[/]",
    "broken": "[bold red]broken[/]",
}


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Say what this machine can do, what is missing, what that costs and how to mend it.

    Exit status 1 if something is broken, so that nothing would work. Values of variables are never printed.
    """
    items = examine()
    sentences = prospects(items)
    if as_json:
        typer.echo(json.dumps({"items": [item._asdict() for item in items], "prospects": sentences}))
    else:
        _show(items, sentences)
    if any(item.state == "broken" for item in items):
        raise typer.Exit(1)


def _show(items: tuple[Item, ...], sentences: tuple[str, ...]) -> None:
    table = Table("", "what", "found", box=None, header_style="bold")
    for item in items:
        found = plain(item.found)
        if item.state != "ok":
            found += f"\n[dim]without it:[/] {plain(item.consequence)}\n[dim]to mend it:[/] {plain(item.cure)}"
        table.add_row(_MARKS[item.state], plain(item.name), found)
    console = stdout()
    console.print(table)
    console.print()
    for sentence in sentences:
        console.print(sentence)
