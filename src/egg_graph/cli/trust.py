"""`egg-graph trust`: how far can this machine's evaluator be trusted? Needs neither a model nor LangGraph.

Each command measures on files that the user brings: a corpus, a kernel, or problems.
"""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from egg_graph.cli.console import REJECTED, plain, stdout
from egg_graph.cli.files import read_candidate, read_task
from egg_graph.cli.options import DEVICE, OUT, PRECISION
from egg_graph.cli.stopping import stoppable
from egg_graph.context import Device, check_device
from egg_graph.schema import Precision

trust = typer.Typer(no_args_is_help=True, help="How far can this machine's evaluator be trusted? Measure it.")
WIDEST = 32
"""Characters of a cell of the terminal's table; the page has them all."""


@trust.command()
def corpus(
    folders: Annotated[
        list[Path], typer.Argument(help="Folders or files of kernels whose headers say what to expect.")
    ],
    problems: Annotated[Path | None, typer.Option(help="Folder of references; beside the corpus if left out.")] = None,
    device: Annotated[Device, DEVICE] = "auto",
    repeat: Annotated[int, typer.Option(min=1, help="Judge each file so often; the worst outcome counts.")] = 1,
    timeout: Annotated[float, typer.Option(help="Seconds that one run of a kernel may take.")] = 60.0,
    finalist: Annotated[bool, typer.Option("--finalist", help="Judge every file as a finalist.")] = False,
    only: Annotated[list[str] | None, typer.Option(help="Judge the files of these ids.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the rows that --out already has; judge the rest.")] = False,
    workers: Annotated[int, typer.Option(min=1, help="Evaluators side by side.")] = 1,
    out: Annotated[Path | None, OUT] = None,
) -> None:
    """Judge tricks, bugs and right kernels, and hold each verdict against what the file expects.

    Exit status 1 if a trick or bug was missed, or a right kernel rejected.
    """
    from egg_graph.bench.trust.corpus import run_corpus
    from egg_graph.bench.trust.rows import BAD, COLUMNS, CorpusRow, cells, rates, summary

    check_device(device)
    console = stdout()

    def print_row(row: CorpusRow) -> None:
        color = "red" if row.outcome in BAD else "green"
        reason = plain(row.worst.reason)[:140]
        console.print(f"[{color}]{row.outcome:12}[/] {plain(row.header.id)}  {reason}", soft_wrap=True)

    with stoppable():
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
            workers=workers,
            on_row=print_row,
        )
    table = Table(box=None, pad_edge=False)
    for name in COLUMNS:
        wide = name in ("name", "expected", "finding")
        table.add_column(name, no_wrap=True, max_width=WIDEST if wide else None, min_width=None if wide else 1)
    for row in results.rows:
        table.add_row(*(plain(cell) for cell in cells(row)))
    console.print(table)
    console.print(summary(rates(results.rows)))
    if any(row.outcome in BAD for row in results.rows):
        raise typer.Exit(REJECTED)


@trust.command()
def spread(
    reference: Annotated[Path, typer.Argument(help="PyTorch reference.")],
    candidate: Annotated[Path, typer.Argument(help="A right kernel for it.")],
    count: Annotated[int, typer.Option(min=2, help="Fresh evaluators.")] = 10,
    together: Annotated[int, typer.Option(min=1, help="Evaluators at a time; they measure in turns.")] = 1,
    device: Annotated[Device, DEVICE] = "auto",
    precision: Annotated[Precision, PRECISION] = "tf32",
    out: Annotated[Path | None, OUT] = None,
) -> None:
    """Judge one kernel in fresh evaluators, and tell how far their ratios lie apart.

    Exit status 1 if one says `faster` and another `slower`.
    """
    from egg_graph.bench.trust.spread import SpreadVerdict, run_spread, spread_page

    check_device(device)
    console = stdout()

    def print_verdict(verdict: SpreadVerdict) -> None:
        console.print(f"{plain(verdict.status)}  {plain(verdict.reason)}", soft_wrap=True)

    results = run_spread(
        read_task(reference, precision),
        read_candidate(candidate),
        candidate.name,
        out,
        count=count,
        device=device,
        together=together,
        on_verdict=print_verdict,
    )
    typer.echo(spread_page(results))
    if results.contradiction:
        raise typer.Exit(REJECTED)


@trust.command()
def probe(
    suite: Annotated[list[Path], typer.Argument(help="Folders of references (KernelBench's levels), or files.")],
    device: Annotated[Device, DEVICE] = "auto",
    precision: Annotated[Precision, PRECISION] = "ieee",
    workers: Annotated[int, typer.Option(min=1, help="Problems at a time.")] = 1,
    seconds: Annotated[float, typer.Option(help="For one problem.")] = 120.0,
    reported: Annotated[Path | None, typer.Option(help="TOML of what others have reported, for the page.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the rows that --out already has; probe the rest.")] = False,
    out: Annotated[Path | None, OUT] = None,
) -> None:
    """Judge problems before candidates: which ones could be passed without computing?"""
    from egg_graph.bench.suite import find_references
    from egg_graph.bench.trust.probe import Probe, probe_suite
    from egg_graph.evaluator import gpu_present

    check_device(device)
    console = stdout()

    def print_probe(probe: Probe) -> None:
        text = probe.reason or "; ".join(probe.weaknesses)
        console.print(f"{probe.verdict:12} {plain(probe.problem)}  {plain(text)[:140]}", soft_wrap=True)

    probe_suite(
        [file for path in suite for file in find_references(path)],
        out,
        device="gpu" if device == "gpu" or (device == "auto" and gpu_present()) else "none",
        precision=precision,
        workers=workers,
        seconds=seconds,
        reported=reported,
        keep=keep,
        on_probe=print_probe,
    )
