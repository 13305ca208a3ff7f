"""The sweep of a run of `tune` on the terminal: one table, why one came to none, and what the winner gains."""

from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from egg_graph.cli.console import plain
from egg_graph.context import make_context
from egg_graph.nodes.improvement import NOISE
from egg_graph.schema import USABLE, KernelResources, Sweep, Trial

if TYPE_CHECKING:
    from egg_graph import Run

_HEADINGS = ("registers", "spills [B]", "shared [KiB]", "occupancy", "device time [ms]")
_SHORT_HEADINGS = ("regs", "spill B", "KiB", "occ.", "ms")
WIDE = 110
"""Columns from which the headings are written out."""


def show_sweep(console: Console, run: "Run") -> None:
    """Print the configurations of a run of `tune` as one table, and what the winner gains."""
    from egg_graph.runs.tunable import TUNABLE
    from egg_graph.runs.winner import last_sweep

    sweep = last_sweep(run)
    if sweep is None:
        console.print(plain(f"nothing was swept: {_why_none(run)}"), soft_wrap=True)
        return
    turned = [knob for knob, values in sweep.knobs.items() if len(values) > 1]
    console.print(_table(sweep, turned, console.width))
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


def _why_none(run: "Run") -> str:
    """Why a run came to no sweep."""
    from egg_graph.budgets import reached
    from egg_graph.runs.folder import read_request

    request = read_request(run.folder)
    handed_in, best = bool(request.get("kernel")), run.state.get("best")
    if run.status == "unevaluable":
        return "the reference cannot be evaluated"
    if best is None and run.attempts:
        last = run.attempts[-1].evaluation
        which = "the kernel" if handed_in else f"none of {len(run.attempts)} kernels is right; the last"
        return f"{which} was judged {last.status}: {last.reason}"
    if used_up := reached(run.state, make_context(request["context"])):
        return f"the run ended before it: {used_up[0]}"
    if best is None:
        return "the embedded expert writes no kernel for this reference: give one with --kernel"
    return "the kernel that was judged has no SPACE that leaves a choice"


def _table(sweep: Sweep, turned: list[str], width: int) -> Table:
    """The sweep as a table; a long configuration takes several lines, for rows have to be told apart."""
    table = Table(title="configurations, the kernel's own first", title_justify="left", box=SIMPLE_HEAD)
    table.add_column("configuration", overflow="fold")
    for heading in _HEADINGS if width >= WIDE else _SHORT_HEADINGS:
        table.add_column(plain(heading), justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
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
    from egg_graph.runs.winner import swept_attempt

    if not any(trial.milliseconds for trial in sweep.trials):
        return ""
    own = swept_attempt(run)
    tuned = next((a for a in run.attempts if a.candidate.parent == sweep.kernel and a.candidate.mode == "tune"), None)
    before = None if own is None else own.evaluation.timing
    after = None if tuned is None else tuned.evaluation.timing
    if tuned is None:
        count = len(sweep.trials)
        if sweep.winner in (None, sweep.trials[0].config):
            return f"the kernel's own configuration is the fastest of {count}"
        return f"the fastest of {count} gains no more than the noise ({NOISE:.0%}) over the kernel's own configuration"
    if before is None or after is None:
        return f"the fastest configuration was not timed when it was judged: {tuned.evaluation.reason}"
    gain = (
        f"{before.candidate_ms:.4g} ms -> {after.candidate_ms:.4g} ms, {before.candidate_ms / after.candidate_ms:.2f}x"
    )
    kept = "" if tuned.improved else "; it was not better when it was judged, and the kernel keeps its own"
    return f"tuned: {gain} over the kernel's own configuration{kept}"
