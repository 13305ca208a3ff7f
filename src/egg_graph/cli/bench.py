"""`egg-graph bench`: optimize every reference of a suite, and write the results as rows and as a table."""

from pathlib import Path
from typing import Annotated

import typer

from egg_graph.cli.console import plain, stdout
from egg_graph.cli.options import MODEL, given, knob
from egg_graph.cli.progress import Progress
from egg_graph.context import Device, check_device
from egg_graph.schema import Precision
from egg_graph.team import read_models


def bench(
    suite: Annotated[Path, typer.Argument(help="Folder of references, a .txt list of paths, or one reference.")],
    out: Annotated[Path, typer.Option(help="Results, without suffix: .json and .md are written.")] = Path(
        "results/bench"
    ),
    only: Annotated[str, typer.Option(help="Run the references whose name matches this pattern.")] = "*",
    keep: Annotated[bool, typer.Option("--keep", help="Keep the rows that --out already has; run the rest.")] = False,
    runs: Annotated[Path, typer.Option(help="Where the runs' folders are made.")] = Path("runs"),
    model: Annotated[list[str] | None, MODEL] = None,
    target: Annotated[str | None, knob("target")] = None,
    precision: Annotated[Precision | None, knob("precision")] = None,
    device: Annotated[Device | None, knob("device")] = None,
    max_attempts: Annotated[int | None, knob("max_attempts")] = None,
    max_seconds: Annotated[float | None, knob("max_seconds")] = None,
) -> None:
    """Optimize every reference of a suite; write raw rows (JSON) and a table (Markdown) with the terms of measurement.

    The summary gives geometric mean and median of the ratios, and fast_p over all problems; the file is rewritten after
    every problem, so that an interrupted suite goes on with --keep.
    """
    from egg_graph.bench import find_references, markdown, run_suite

    check_device(device or "auto")  # once, rather than in every row
    knobs = given(target=target, precision=precision, device=device, max_attempts=max_attempts, max_seconds=max_seconds)
    console = stdout()
    with Progress(console) as progress:
        results = run_suite(
            find_references(suite, only),
            out,
            model=read_models(model or []),
            runs_dir=runs,
            keep=keep,
            on_start=lambda name: console.rule(f"[bold]{plain(name)}[/]", align="left"),
            on_event=progress,
            on_row=lambda row: console.print(f"{plain(row.status)}  {plain(row.reason)}"),
            **knobs,
        )
    console.print()
    typer.echo(markdown(results))
    console.print(f"{plain(out)}.json, {plain(out)}.md")
