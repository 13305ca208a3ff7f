"""`egg-graph hardware`, `egg-graph principles` and `egg-graph graph`: what the library knows, printed."""

import re
from pathlib import Path
from typing import Annotated, get_args

import typer
from rich.table import Table

from egg_graph.cli.console import plain, stdout
from egg_graph.schema import BadInput, StageName

_FENCE = re.compile(r"(```mermaid\n).*?(```)", re.DOTALL)
_RATES = (("dram_bandwidth", 2), ("peak_tf32", 1), ("peak_fp32", 1))
"""Figures of the list of GPUs, and digits after the point."""


def hardware(
    key: Annotated[str | None, typer.Argument(help="A GPU's key, to see every figure of it with its source.")] = None,
    folder: Annotated[
        str | None, typer.Option("--knowledge", help="Folder with hardware_*.toml files of your own.")
    ] = None,
) -> None:
    """List the GPUs a kernel can be written for, or show one with the source of every figure."""
    if key is None:
        _list_gpus(folder)
    else:
        _show_gpu(key, folder)


def _list_gpus(folder: str | None) -> None:
    from egg_graph.knowledge import hardware_keys, load_hardware

    header = ("key", "GPU", "arch", "DRAM [TB/s]", "TF32 [TFLOP/s]", "fp32 [TFLOP/s]")
    table = Table(*header, box=None, header_style="bold")
    for key in hardware_keys(folder):
        gpu = load_hardware(key, folder)
        figures = [(gpu.figures.get(name), digits) for name, digits in _RATES]
        rates = ("-" if figure is None else f"{figure.value / 1e12:.{digits}f}" for figure, digits in figures)
        table.add_row(plain(key), plain(gpu.name), plain(gpu.arch), *rates)
    stdout().print(table)


def _show_gpu(key: str, folder: str | None) -> None:
    from egg_graph.knowledge import load_hardware

    gpu = load_hardware(key, folder)
    console = stdout()
    console.print(f"[bold]{plain(gpu.name)}[/] ({plain(gpu.vendor)}, {plain(gpu.arch)})")
    table = Table("figure", "value", "unit", "source", box=None, header_style="bold")
    for name, figure in gpu.figures.items():
        table.add_row(plain(name), f"{figure.value:,.6g}", plain(figure.unit), plain(figure.source))
    console.print(table)
    for note in gpu.notes:
        console.print(f"- {plain(note)}")


def principles(
    stage: Annotated[str | None, typer.Option(help="Only those of one stage.")] = None,
    folder: Annotated[
        str | None, typer.Option("--knowledge", help="Folder with principles_*.toml files of your own.")
    ] = None,
) -> None:
    """List the expert principles: when each applies, what to do, what it should change, and the evidence for it."""
    from egg_graph.knowledge import load_principles

    stages = get_args(StageName)
    if stage is not None and stage not in stages:
        raise BadInput(f"no stage {stage!r}; the stages are {', '.join(stages)}")
    console = stdout()
    for principle in load_principles(folder):
        if stage is not None and stage not in principle.stages:
            continue
        console.print(
            f"[bold]{plain(principle.id)}[/]  {plain(principle.title)}  [dim]{', '.join(principle.stages)}[/]"
        )
        console.print(f"  when      {plain(principle.when)}")
        console.print(f"  do        {plain(principle.do)}")
        console.print(f"  changes   {plain(principle.changes.metric)} {principle.changes.direction}")
        if principle.evidence:
            console.print(f"  evidence  {plain(principle.evidence)}")
        console.print()


def graph(
    write: Annotated[
        list[Path] | None, typer.Option(help="Put the diagram into this Markdown file's first mermaid block instead.")
    ] = None,
    unfold: Annotated[bool, typer.Option("--unfold", help="Draw every stage with the nodes inside it.")] = False,
) -> None:
    """Print the graph as a Mermaid diagram. All diagrams, one by one: docs/graph.md."""
    from egg_graph.drawing import draw_folded, draw_unfolded

    diagram = draw_unfolded() if unfold else draw_folded()
    if not write:
        typer.echo(diagram)
    for path in write or []:
        _replace_diagram(path, diagram)


def _replace_diagram(path: Path, diagram: str) -> None:
    if not path.is_file():
        raise BadInput(f"{path}: no such file; create it with a ```mermaid block to be filled")
    text = path.read_text(encoding="utf-8")
    new, count = _FENCE.subn(lambda policy: f"{policy[1]}{diagram.rstrip()}\n{policy[2]}", text, count=1)
    if not count:
        raise BadInput(f"{path}: holds no ```mermaid block to be filled; add an empty one where the diagram belongs")
    path.write_text(new, encoding="utf-8")
    typer.echo(f"{path}: {'unchanged' if new == text else 'redrawn'}")
