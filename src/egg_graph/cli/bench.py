"""`egg-graph bench`: optimize every problem of a suite on all GPUs, and write rows, a table and a page."""

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from egg_graph.cli.bench_progress import BenchProgress
from egg_graph.cli.console import plain, stdout
from egg_graph.cli.options import EVALUATOR, MODEL, given_knobs, knob
from egg_graph.context import Device
from egg_graph.schema import Precision
from egg_graph.team import read_models

_WHAT, _HOW = "What is measured", "How it is run"


def bench(
    suite: Annotated[
        str,
        typer.Argument(help="kernelbench, workloads (layers of language models), a folder, a .txt list, or a file."),
    ],
    path: Annotated[
        Path | None, typer.Option(help="A checkout of KernelBench, for the suite kernelbench.", rich_help_panel=_WHAT)
    ] = None,
    levels: Annotated[
        str, typer.Option(help="KernelBench's levels, such as 1,2; all if left out.", rich_help_panel=_WHAT)
    ] = "",
    problems: Annotated[
        str,
        typer.Option(help="KernelBench's problems: 1-10,15 of every level, or 2/18 of one.", rich_help_panel=_WHAT),
    ] = "",
    only: Annotated[
        str, typer.Option(help="Run the references whose file name matches this pattern.", rich_help_panel=_WHAT)
    ] = "*",
    without: Annotated[
        list[str] | None,
        typer.Option(
            help="Run every problem once more without this part (tuner, stage-two, principles ...); repeat for more.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Results, without suffix: .json, .md, .html and the journal .jsonl are written.")
    ] = Path("results/bench"),
    runs: Annotated[Path, typer.Option(help="Where the runs' folders are made; a restart needs them.")] = Path("runs"),
    workers: Annotated[
        int, typer.Option(min=1, help="Problems at a time on each GPU; without one, in all.", rich_help_panel=_HOW)
    ] = 1,
    seconds: Annotated[
        float | None,
        typer.Option(help="Begin no further problem after this long; the same command goes on.", rich_help_panel=_HOW),
    ] = None,
    store_out: Annotated[
        Path | None,
        typer.Option(help="Write the winner of every run's sweep into this store of winners.", rich_help_panel=_HOW),
    ] = None,
    anew: Annotated[
        bool, typer.Option("--anew", help="Forget an earlier bench of this name.", rich_help_panel=_HOW)
    ] = False,
    retry: Annotated[
        bool, typer.Option("--retry", help="Run problems again whose run could not be made.", rich_help_panel=_HOW)
    ] = False,
    model: Annotated[list[str] | None, MODEL] = None,
    evaluator: Annotated[str | None, EVALUATOR] = None,
    tuned_baseline: Annotated[bool | None, knob("tuned_baseline", "--tuned", panel=_WHAT)] = None,
    target: Annotated[str | None, knob("target")] = None,
    precision: Annotated[Precision | None, knob("precision")] = None,
    device: Annotated[Device | None, knob("device")] = None,
    max_attempts: Annotated[int | None, knob("max_attempts")] = None,
    max_seconds: Annotated[float | None, knob("max_seconds")] = None,
) -> None:
    """Optimize every problem of a suite on all GPUs at once; write rows (JSON), a table (Markdown) and a page (HTML).

    A bench that was killed goes on with the same command: nothing that was measured is measured again. With another
    selection of the same suite, its problems join those that are there.
    """
    from egg_graph.bench import find_problems, run_bench
    from egg_graph.bench.suite import WORKLOADS

    found = find_problems(suite, path=path, levels=levels, problems=problems, only=only)
    if suite == WORKLOADS:
        precision = precision or "bf16"  # as these layers are used
    knobs = given_knobs(locals())
    named = str(Path(suite))
    chosen_from = named if path is None else f"{named} --path {shlex.quote(str(path))}"
    console = stdout()
    with _stopping(console), BenchProgress(console) as progress:
        results = run_bench(
            found,
            out,
            suite=chosen_from,
            command=shlex.join(["egg-graph", *sys.argv[1:]]),
            model=read_models(model or []),
            runs_dir=runs,
            without=without or [],
            workers=workers,
            seconds=seconds or float("inf"),
            store_out=store_out,
            evaluator=evaluator or "",
            anew=anew,
            retry=retry,
            display=progress.display,
            **knobs,
        )
    progress.summary(results)
    console.print(", ".join(f"{plain(out)}.{suffix}" for suffix in ("html", "md", "json")), soft_wrap=True)


@contextmanager
def _stopping(console: Console) -> Iterator[None]:
    """Say after Ctrl-C that nothing is lost."""
    try:
        yield
    except KeyboardInterrupt:
        console.print("stopped; the same command goes on with it")
        raise
