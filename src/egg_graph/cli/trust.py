"""`egg-graph trust`: how far can this machine's evaluator be trusted? Needs neither a model nor LangGraph."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from egg_graph.cli.console import plain, stdout
from egg_graph.cli.errors import REJECTED

trust = typer.Typer(no_args_is_help=True, help="How far can this machine's evaluator be trusted? Measure it.")
Device = Literal["auto", "gpu", "none"]
DEVICE = typer.Option(help="Where to judge: on a GPU, without one, or as it comes.")
OUT = typer.Option(help="Results: .json, and a page .md beside it.")


@trust.command()
def corpus(
    folders: Annotated[list[Path], typer.Argument(help="Folders of kernels whose headers say what to expect.")],
    problems: Annotated[Path | None, typer.Option(help="Folder of references; beside the corpus if left out.")] = None,
    device: Annotated[Device, DEVICE] = "auto",
    repeat: Annotated[int, typer.Option(min=1, help="Judge each file so often; the worst outcome counts.")] = 1,
    timeout: Annotated[float, typer.Option(help="Seconds that one run of a kernel may take.")] = 60.0,
    finalist: Annotated[bool, typer.Option("--finalist", help="Judge every file as a finalist.")] = False,
    only: Annotated[list[str] | None, typer.Option(help="Judge the files of these ids.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the rows that --out already has; judge the rest.")] = False,
    out: Annotated[Path | None, OUT] = None,
) -> None:
    """Judge tricks, bugs and right kernels, and hold each verdict against what the file expects.

    Exit status 1 if a trick or bug was missed, or a right kernel rejected.
    """
    from rich.table import Table

    from egg_graph.bench.trust.corpus import run_corpus
    from egg_graph.bench.trust.pages import HEADER, cells, summary
    from egg_graph.bench.trust.values import BAD, CorpusRow, rates
    from egg_graph.context import check_device

    check_device(device)
    console = stdout()

    def tell(row: CorpusRow) -> None:
        mark = "red" if row.outcome in BAD else "green"
        console.print(
            f"[{mark}]{row.outcome:12}[/] {plain(row.header.id)}  {plain(row.told.reason)[:140]}", soft_wrap=True
        )

    results = run_corpus(
        folders,
        out,
        problems=problems,
        device=device,
        repeat=repeat,
        timeout=timeout,
        finalist=finalist,
        only=only or (),
        keep=keep,
        on_row=tell,
    )
    shown = Table(*HEADER)
    for row in results.rows:
        shown.add_row(*(plain(cell) for cell in cells(row)))
    console.print(shown)
    console.print(summary(rates(results.rows)))
    if any(row.outcome in BAD for row in results.rows):
        raise typer.Exit(REJECTED)
