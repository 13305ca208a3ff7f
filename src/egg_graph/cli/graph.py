"""`egg-graph graph`: the topology as a diagram, drawn from the graph itself."""

import re
from pathlib import Path
from typing import Annotated

import typer

from egg_graph.schema import BadInput

_FENCE = re.compile(r"(```mermaid\n).*?(```)", re.DOTALL)


def graph(
    write: Annotated[
        list[Path] | None, typer.Option(help="Put the diagram into this Markdown file's first mermaid block instead.")
    ] = None,
    unfold: Annotated[bool, typer.Option("--unfold", help="Draw every stage with the nodes inside it.")] = False,
) -> None:
    """Print the graph as a Mermaid diagram. All diagrams, one by one: docs/graph.md."""
    from egg_graph import build_egg_graph

    diagram = build_egg_graph().get_graph(xray=unfold).draw_mermaid()
    if not write:
        typer.echo(diagram)
    for path in write or []:
        _replace(path, diagram)


def _replace(path: Path, diagram: str) -> None:
    if not path.is_file():
        raise BadInput(f"{path}: no such file; create it with a ```mermaid block to be filled")
    text = path.read_text(encoding="utf-8")
    new, count = _FENCE.subn(lambda policy: f"{policy[1]}{diagram.rstrip()}\n{policy[2]}", text, count=1)
    if not count:
        raise BadInput(f"{path}: holds no ```mermaid block to be filled; add an empty one where the diagram belongs")
    path.write_text(new, encoding="utf-8")
    typer.echo(f"{path}: {'unchanged' if new == text else 'redrawn'}")
