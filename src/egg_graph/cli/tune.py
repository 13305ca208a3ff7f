"""`egg-graph tune`: re-tune one kernel for the machine that judges."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from egg_graph.cli.console import REJECTED, plain, stdout
from egg_graph.cli.files import read_source
from egg_graph.cli.optimize import conclude, resume_hint
from egg_graph.cli.options import EVALUATOR, given, given_knobs, knob
from egg_graph.cli.progress import Progress
from egg_graph.cli.stopping import stoppable
from egg_graph.cli.terms import DEFAULT_RUNS
from egg_graph.context import Accept, Device
from egg_graph.schema import USABLE, Domain, KernelResources, Precision, Sweep, Trial

if TYPE_CHECKING:
    from egg_graph import Run


def tune(
    reference: Annotated[Path, typer.Argument(help="PyTorch module in KernelBench's form.")],
    kernel: Annotated[
        Path | None,
        typer.Option(help="ModelNew with CONFIG and SPACE.", show_default="the embedded expert's kernel"),
    ] = None,
    store_out: Annotated[
        Path | None, typer.Option(help="A further store that the winner is written to, such as one that is to ship.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="What to call the task.", show_default="the file's name")] = None,
    runs: Annotated[Path, typer.Option(help="Where the run's folder is made.")] = DEFAULT_RUNS,
    max_configs: Annotated[
        int | None, typer.Option(help="Most configurations, the kernel's own included.", show_default="64")
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
    read_source(reference, "reference")  # complain before seconds of imports
    if kernel is not None:
        read_source(kernel, "kernel")
    options = {**given_knobs(locals()), **given(name=name, evaluator=evaluator)}
    console = stdout()
    tuned = "the embedded expert's kernel" if kernel is None else kernel
    console.print(f"[bold]{plain(reference)}[/], tuning {plain(tuned)}")
    import egg_graph

    with Progress(console, ranks_untimed=False) as progress, stoppable(), resume_hint(runs, None):
        run = egg_graph.tune(reference, kernel=kernel, store_out=store_out, runs_dir=runs, on_event=progress, **options)
    show_sweep(console, run)
    conclude(console, run)
    if not run.accepted:
        raise typer.Exit(REJECTED)


def show_sweep(console: Console, run: "Run") -> None:
    """Print the configurations of a run of `tune` as one table, and what the winner gains."""
    from egg_graph.runs.tune import TUNABLE, whole_sweep

    sweep = whole_sweep(run)
    if sweep is None:
        console.print("nothing was swept: there is no right kernel whose SPACE leaves a choice")
        return
    turned = [knob for knob, values in sweep.knobs.items() if len(values) > 1]
    console.print(_table(sweep, turned))
    for trial in sweep.failed:
        console.print(plain(f"{_knobs(trial, turned)}: {trial.status}: {trial.reason}"), soft_wrap=True)
    console.print(plain(_gain(run, sweep) or _untimed(run)), soft_wrap=True)
    if run.accepted:
        console.print(f"tunable   {plain(run.folder / TUNABLE)}, the kernel with CONFIG and SPACE", soft_wrap=True)


def _untimed(run: "Run") -> str:
    """Why nothing is said of speed."""
    if run.state["baseline"].eager_ms is not None:
        return "no configuration was timed: the kernel keeps its own"
    target = run.state["task"].target
    return (
        f"no clock here: the figures are the compiler's for {target.name} ({target.arch}); they rank nothing, and the "
        "kernel keeps its own configuration. Tune it on that GPU."
    )


def _table(sweep: Sweep, turned: list[str]) -> Table:
    table = Table(title="configurations, the kernel's own first", title_justify="left", box=SIMPLE_HEAD)
    headings = ("configuration", "registers", "spills [B]", "shared [KiB]", "occupancy", "device time [ms]", "")
    for number, heading in enumerate(headings):
        table.add_column(plain(heading), justify="left" if number in (0, len(headings) - 1) else "right")
    for trial in sweep.trials:
        time = "-" if trial.milliseconds is None else f"{trial.milliseconds:.4g}"
        row = (plain(_knobs(trial, turned)), *_figures(trial.resources), time, _note(trial, sweep))
        table.add_row(*row, style="" if trial.status in USABLE else "dim")
    return table


def _note(trial: Trial, sweep: Sweep) -> str:
    """How a configuration fared, in a word or two."""
    if trial.status not in USABLE:
        return plain(trial.status)
    if trial.milliseconds is None:
        return "not timed"
    return "[bold]fastest[/]" if trial.config == sweep.winner else ""


def _knobs(trial: Trial, turned: list[str]) -> str:
    return ", ".join(f"{knob}={trial.config[knob]}" for knob in turned)


def _figures(kernels: tuple[KernelResources, ...]) -> tuple[str, str, str, str]:
    """Of several kernels the most registers, spills and shared memory, and the least occupancy."""
    if not kernels:
        return "-", "-", "-", "-"
    registers = [kernel.registers for kernel in kernels if kernel.registers is not None]
    occupancy = [kernel.occupancy for kernel in kernels if kernel.occupancy is not None]
    return (
        str(max(registers)) if registers else "-",
        str(max(kernel.spill_bytes for kernel in kernels)),
        f"{max(kernel.shared_bytes for kernel in kernels) / 1024:.4g}",
        f"{min(occupancy):.0%}" if occupancy else "-",
    )


def _gain(run: "Run", sweep: Sweep) -> str:
    """What the winner gains over the configuration that the kernel came with, both by evaluations; empty if untimed."""
    from egg_graph.runs.tune import swept_attempt

    if not any(trial.milliseconds for trial in sweep.trials):
        return ""
    own = swept_attempt(run)
    tuned = next((a for a in run.attempts if a.candidate.parent == sweep.kernel and a.candidate.mode == "tune"), None)
    before = None if own is None else own.evaluation.timing
    after = None if tuned is None else tuned.evaluation.timing
    if tuned is None:
        return f"the kernel's own configuration is the fastest of {len(sweep.trials)}"
    if before is None or after is None:
        return f"the fastest configuration was not timed when it was judged: {tuned.evaluation.reason}"
    gain = (
        f"{before.candidate_ms:.4g} ms -> {after.candidate_ms:.4g} ms, {before.candidate_ms / after.candidate_ms:.2f}x"
    )
    kept = "" if tuned.improved else "; it was not better when it was judged, and the kernel keeps its own"
    return f"tuned: {gain} over the kernel's own configuration{kept}"
