"""`egg-graph trust`: how far can this machine's evaluator be trusted? Needs neither a model nor LangGraph."""

import math
from pathlib import Path
from typing import Annotated, Literal

import typer

from egg_graph.cli.console import plain, stdout
from egg_graph.cli.errors import REJECTED
from egg_graph.schema import Precision

trust = typer.Typer(no_args_is_help=True, help="How far can this machine's evaluator be trusted? Measure it.")
Device = Literal["auto", "gpu", "none"]
DEVICE = typer.Option(help="Where to judge: on a GPU, without one, or as it comes.")
PRECISION = typer.Option(help="Precision policy; it binds both sides alike.")
OUT = typer.Option(help="Results: .json, and a page .md beside it.")
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
    from rich.table import Table

    from egg_graph.bench.trust.corpus import run_corpus
    from egg_graph.bench.trust.pages import HEADER, cells, summary
    from egg_graph.bench.trust.rows import BAD, CorpusRow, rates
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
        workers=workers,
        on_row=tell,
    )
    shown = Table(box=None, pad_edge=False)
    for name in HEADER:
        wide = name in ("name", "expected", "finding")
        shown.add_column(name, no_wrap=True, max_width=WIDEST if wide else None, min_width=None if wide else 1)
    for row in results.rows:
        shown.add_row(*(plain(cell) for cell in cells(row)))
    console.print(shown)
    console.print(summary(rates(results.rows)))
    if any(row.outcome in BAD for row in results.rows):
        raise typer.Exit(REJECTED)


@trust.command()
def soak(
    folders: Annotated[list[Path], typer.Argument(help="Corpora with right kernels and faulty ones.")],
    count: Annotated[int, typer.Option(min=1, help="Evaluations in all.")] = 200,
    faults: Annotated[bool, typer.Option("--faults/--no-faults", help="Mix faulty candidates in.")] = True,
    device: Annotated[Device, DEVICE] = "auto",
    problems: Annotated[Path | None, typer.Option(help="Folder of references; beside a corpus if left out.")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds that one run of a kernel may take.")] = 20.0,
    seed: Annotated[int, typer.Option(help="Of the mixture.")] = 1,
    workers: Annotated[int, typer.Option(min=1, help="Evaluators side by side, each with a row of its own.")] = 1,
    max_seconds: Annotated[float | None, typer.Option(help="End the row after this, before --count.")] = None,
    out: Annotated[Path | None, OUT] = None,
) -> None:
    """Evaluate a long row of kernels with faults among them; then look for processes, files and memory left.

    Exit status 1 if a right kernel was disturbed, a fault accepted, or something left or grown.
    """
    from tests.lab.soak import Turn, run_soak, soak_page
    from egg_graph.context import check_device

    check_device(device)
    console = stdout()

    def tell(turn: Turn) -> None:
        console.print(
            f"{plain(turn.id):24} {plain(turn.status):16} {turn.seconds:6.1f} s {turn.resident_bytes >> 20:6} MiB "
            f"{turn.descriptors:4} descriptors {turn.processes:3} processes",
            soft_wrap=True,
        )

    results = run_soak(
        folders,
        out,
        count=count,
        faults=faults,
        device=device,
        problems=problems,
        timeout=timeout,
        seed=seed,
        workers=workers,
        most_seconds=math.inf if max_seconds is None else max_seconds,
        on_turn=tell,
    )
    typer.echo(soak_page(results))
    if results.complaints:
        raise typer.Exit(REJECTED)


@trust.command()
def faults(
    right: Annotated[Path, typer.Argument(help="A right kernel, with a header; judged after every fault.")],
    folders: Annotated[list[Path], typer.Argument(help="Folders of faulty kernels, with headers.")],
    device: Annotated[Device, DEVICE] = "auto",
    timeout: Annotated[float, typer.Option(help="Seconds that one run of a kernel may take.")] = 10.0,
    out: Annotated[Path | None, OUT] = None,
) -> None:
    """Provoke faults one by one, each with a right kernel judged after it.

    Beside the faulty kernels: a fork bomb that no gate has seen, a worker and a judge killed in the middle of an
    evaluation, and (on a GPU) hardware counters denied.

    Exit status 1 if a fault got another verdict than expected, took too long, or changed the right kernel's answer.
    """
    from tests.lab.faults import Fault, faults_page, run_faults
    from egg_graph.context import check_device

    check_device(device)
    console = stdout()

    def tell(fault: Fault) -> None:
        mark = "green" if fault.as_expected and fault.same_answer else "red"
        told = f"{fault.status}, {fault.seconds:.1f} s, next {fault.after}: {plain(fault.reason)[:100]}"
        console.print(f"[{mark}]{plain(fault.name)}[/]  {told}", soft_wrap=True)

    results = run_faults(folders, right, out, device=device, timeout=timeout, on_fault=tell)
    typer.echo(faults_page(results))
    if results.complaints:
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
    from egg_graph.bench.trust.spread import Ratio, run_spread, spread_page
    from egg_graph.bench.trust.provenance import read_candidate, read_task
    from egg_graph.context import check_device

    check_device(device)
    console = stdout()

    def tell(verdict: Ratio) -> None:
        console.print(f"{plain(verdict.status)}  {plain(verdict.reason)}", soft_wrap=True)

    task, kernel = read_task(reference, precision), read_candidate(candidate)
    results = run_spread(
        task, kernel, candidate.name, out, count=count, device=device, together=together, on_verdict=tell
    )
    typer.echo(spread_page(results))
    if results.contradiction:
        raise typer.Exit(REJECTED)


@trust.command()
def cost(
    reference: Annotated[Path, typer.Argument(help="PyTorch reference.")],
    candidate: Annotated[Path, typer.Argument(help="A right kernel for it.")],
    warm: Annotated[int, typer.Option(min=0, help="Further evaluations by a warm evaluator.")] = 3,
    kernelbench: Annotated[Path | None, typer.Option(help="A checkout of KernelBench, to be timed as well.")] = None,
    device: Annotated[Device, DEVICE] = "auto",
    precision: Annotated[Precision, PRECISION] = "tf32",
    out: Annotated[Path | None, OUT] = None,
) -> None:
    """Tell the seconds of one evaluation, cold and warm, by rung; and KernelBench's for the same kernel.

    KernelBench runs a kernel with all your rights, so it gets one only after it was found right here.
    """
    from tests.lab.cost import cost_page, run_cost
    from egg_graph.bench.trust.provenance import read_candidate, read_task
    from egg_graph.context import check_device

    check_device(device)
    task, kernel = read_task(reference, precision), read_candidate(candidate)
    results = run_cost(task, kernel, candidate.name, out, device=device, warm=warm, kernelbench=kernelbench)
    typer.echo(cost_page(results))


@trust.command()
def throughput(
    reference: Annotated[Path, typer.Argument(help="PyTorch reference.")],
    candidates: Annotated[list[Path], typer.Argument(help="Kernels for it, taken in turn.")],
    workers: Annotated[list[int] | None, typer.Option(min=1, help="Workers of a further pool; 2 if left out.")] = None,
    ray: Annotated[bool, typer.Option("--ray", help="The further pools' workers are Ray actors.")] = False,
    count: Annotated[int, typer.Option(min=1, help="Evaluations by each pool.")] = 20,
    kill_one: Annotated[bool, typer.Option("--kill-one", help="Kill a judge in the middle of the work.")] = False,
    device: Annotated[Device, DEVICE] = "auto",
    precision: Annotated[Precision, PRECISION] = "tf32",
    out: Annotated[Path | None, OUT] = None,
) -> None:
    """Count evaluations per minute, with one worker and with several.

    Exit status 1 if an evaluation was lost.
    """
    from egg_graph.bench.trust.provenance import read_candidate, read_task
    from tests.lab.throughput import run_throughput, throughput_page
    from egg_graph.context import check_device

    check_device(device)
    results = run_throughput(
        read_task(reference, precision),
        [read_candidate(path) for path in candidates],
        [path.name for path in candidates],
        out,
        workers=workers or (2,),
        ray=ray,
        count=count,
        device=device,
        kill_one=kill_one,
    )
    typer.echo(throughput_page(results))
    if any(pace.lost for pace in results.paces):
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
    from egg_graph.context import check_device
    from egg_graph.evaluator import gpu_present

    check_device(device)
    console = stdout()

    def tell(found: Probe) -> None:
        words = found.reason or "; ".join(found.weaknesses)
        console.print(f"{found.verdict:12} {plain(found.problem)}  {plain(words)[:140]}", soft_wrap=True)

    probe_suite(
        [file for path in suite for file in find_references(path)],
        out,
        device="gpu" if device == "gpu" or (device == "auto" and gpu_present()) else "none",
        precision=precision,
        workers=workers,
        seconds=seconds,
        reported=reported,
        keep=keep,
        on_probe=tell,
    )


@trust.command()
def figures(
    folder: Annotated[Path, typer.Argument(help="Folder with trust_*.json files.")] = Path("docs/results"),
    page: Annotated[Path | None, typer.Option(help="Page to put them on, in place of those that are there.")] = None,
) -> None:
    """Print what the results files of a folder come to, as docs/trust.md tells it."""
    from tests.lab.figures import figures as figures_of
    from tests.lab.figures import rewrite

    told = figures_of(folder)
    if page is not None:
        rewrite(page, told)
    typer.echo(told)
