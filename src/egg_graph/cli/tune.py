"""`egg-graph tune`: re-tune one kernel for the machine that judges."""

from pathlib import Path
from typing import Annotated, Any

import typer

from egg_graph.cli.console import plain, stdout
from egg_graph.cli.files import check_reference, read_source
from egg_graph.cli.optimize import finish_run, go_on, resume_hint
from egg_graph.cli.options import EVALUATOR, given, given_knobs, knob
from egg_graph.cli.progress import Progress
from egg_graph.cli.stopping import stoppable
from egg_graph.cli.terms import DEFAULT_RUNS
from egg_graph.context import BUDGETS, Accept, Device
from egg_graph.schema import BadInput, Domain, Precision


def tune(
    reference: Annotated[Path | None, typer.Argument(help="PyTorch module in KernelBench's form.")] = None,
    kernel: Annotated[
        Path | None,
        typer.Option(help="ModelNew with CONFIG and SPACE.", show_default="the embedded expert's kernel"),
    ] = None,
    store_out: Annotated[
        Path | None, typer.Option(help="A further store that the winner is written to, such as one that is to ship.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="What to call the task.", show_default="the file's name")] = None,
    runs: Annotated[Path, typer.Option(help="Where the run's folder is made.")] = DEFAULT_RUNS,
    resume: Annotated[
        str | None, typer.Option(help="Id of an interrupted tune to finish, instead of a reference.")
    ] = None,
    max_configs: Annotated[
        int | None, typer.Option(help="Most configurations, the kernel's own included; 2 at least.", show_default="64")
    ] = None,
    target: Annotated[str | None, knob("target", panel="Task")] = None,
    precision: Annotated[Precision | None, knob("precision", panel="Task")] = None,
    domain: Annotated[Domain | None, knob("domain", panel="Task")] = None,
    device: Annotated[Device | None, knob("device", panel="Task")] = None,
    evaluator: Annotated[str | None, EVALUATOR] = None,
    accept: Annotated[Accept | None, knob("accept", panel="Task")] = None,
    triton_only: Annotated[bool | None, knob("triton_only", "--triton-only", panel="Task")] = None,
    max_seconds: Annotated[float | None, knob("max_seconds")] = None,
    knowledge_dir: Annotated[Path | None, knob("knowledge_dir", "--knowledge")] = None,
) -> None:
    """Sweep the SPACE of one kernel, and judge the winner as optimize does.

    Prints one table, a row for each configuration, and how much the winner gains over the kernel's own configuration.
    Leaves kernel.py, tunable.py (the same with CONFIG and SPACE), evidence.json, history.jsonl and report.html in
    runs/<id>/; the winner of a timed sweep goes into ~/.local/share/egg-graph/winners.json, and later sweeps of that
    kernel try it early.

    Exit status as of optimize: 0 if the kernel was accepted, 1 if the reference is kept, 2 for bad usage or input, 3 if
    the machine failed, 4 if an evaluator elsewhere has yet to answer; 130 or 143 where it was stopped.
    """
    options = {**given_knobs(locals()), **given(name=name, evaluator=evaluator)}
    console = stdout()
    if resume is not None:
        _check_resume(resume, runs, {**options, **given(reference=reference, kernel=kernel, store_out=store_out)})
        finish_run(console, go_on(console, resume, runs, None, options))
        return
    reference = check_reference(reference)
    if kernel is not None:
        read_source(kernel, "kernel")
    tuned = "the embedded expert's kernel" if kernel is None else kernel
    console.print(f"[bold]{plain(reference)}[/], tuning {plain(tuned)}")
    import egg_graph

    with Progress(console, ranks_untimed=False) as progress, stoppable(), resume_hint(runs, None):
        run = egg_graph.tune(reference, kernel=kernel, store_out=store_out, runs_dir=runs, on_event=progress, **options)
    finish_run(console, run)


def _check_resume(run: str, runs: Path, options: dict[str, Any]) -> None:
    """Refuse what a run that goes on cannot take.

    Raises:
        BadInput: if the run is none of `tune`, or more than a budget is given anew.
    """
    from egg_graph.runs.folder import read_request
    from egg_graph.runs.tune_results import TUNE

    if set(options) - BUDGETS:
        raise BadInput("--resume finishes a tune with what it was started with; give it alone, or with --max-seconds")
    if TUNE not in read_request(runs / run):
        raise BadInput(f"{run} is no run of tune: go on with egg-graph optimize --resume {run}")
