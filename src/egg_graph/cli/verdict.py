"""Print a verdict: the status, what was proven, what was not, and the numbers."""

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table

from egg_graph.cli.console import plain
from egg_graph.schema import Check, Evaluation, TunedBaseline, Usage

COLORS = {"faster": "green", "correct": "green", "inconclusive": "yellow", "slower": "yellow"}
"""Colour of a status; every other status is red."""


def color(status: str) -> str:
    """The colour in which a status is printed."""
    return COLORS.get(status, "red")


def show_verdict(console: Console, evaluation: Evaluation, *, title: str, tuned: TunedBaseline | None = None) -> None:
    """Print an evaluation as a panel: what to set first, reason, proofs, gaps, findings, numbers.

    Args:
        console: where to print.
        evaluation: of the kernel.
        title: of the panel.
        tuned: PyTorch with its own switches turned, where that was asked for.
    """
    parts: list[RenderableType] = [
        *_advice(evaluation, tuned),
        f"[bold {color(evaluation.status)}]{evaluation.status}[/]  {plain(evaluation.reason)}",
    ]
    parts += _list("proven", evaluation.proven, "[green]+[/]")
    gaps = tuple(line for line in evaluation.not_proven if line != evaluation.reason)
    parts += _list("not proven", gaps, "[yellow]-[/]")
    parts += _list("not preserved", evaluation.not_preserved, "[yellow]-[/]")
    parts += _findings(evaluation)
    if (numbers := _numbers(evaluation, tuned)).row_count:
        parts += ["", numbers]
    console.print(Panel(Group(*parts), title=plain(title), title_align="left", border_style=color(evaluation.status)))


def _list(title: str, lines: tuple[str, ...], mark: str) -> list[RenderableType]:
    if not lines:
        return []
    table = Table.grid(padding=(0, 1))
    for line in lines:
        table.add_row(f"  {mark}", plain(line))
    return ["", f"[bold]{title}[/]", table]


def _findings(evaluation: Evaluation) -> list[RenderableType]:
    if not evaluation.findings:
        return []
    table = Table.grid(padding=(0, 1))
    for finding in evaluation.findings:
        told = finding.message in evaluation.reason
        table.add_row(f"  [red]{finding.kind}[/]", "told above" if told else plain(finding.message))
        if finding.where and not (told and finding.where in evaluation.reason):
            table.add_row("", f"[dim]where[/] {plain(finding.where)}")
        if finding.cure:
            table.add_row("", f"[dim]cure[/]  {plain(finding.cure)}")
    return ["", "[bold]findings[/]", table]


def worst_check(evaluation: Evaluation) -> Check | None:
    """The check nearest to its error budget, or furthest past it; None where nothing was compared."""
    return max(evaluation.checks, key=lambda check: check.error / (check.budget or 1e-300), default=None)


def _advice(evaluation: Evaluation, tuned: TunedBaseline | None) -> list[RenderableType]:
    """What to set, where a switch of PyTorch gives most of the gain."""
    timing = evaluation.timing
    advice = "" if tuned is None else tuned.advice(None if timing is None else timing.ratio)
    return [f"[bold yellow]{plain(advice)}[/]"] if advice else []


def _numbers(evaluation: Evaluation, tuned: TunedBaseline | None) -> Table:
    table = Table.grid(padding=(0, 2))
    check = worst_check(evaluation)
    if check is not None and (evaluation.usable or not check.passed):  # the error of a passed check rejected nothing
        table.add_row(
            "error", f"{check.error:.2e} of {check.budget:.2e} allowed ({plain(check.label)}, {plain(check.machine)})"
        )
    if timing := evaluation.timing:
        beside = "not compiled" if timing.compile_ms is None else f"torch.compile {timing.compile_ms:.4g} ms"
        table.add_row("time", f"{timing.candidate_ms:.4g} ms; eager {timing.eager_ms:.4g} ms, {beside}")
        interval = f"{timing.ratio_low:.3f} to {timing.ratio_high:.3f}"
        if timing.candidate_host_ms is not None and timing.baseline_host_ms is not None:
            table.add_row(
                "on the host",
                f"{timing.candidate_host_ms:.4g} ms against {timing.baseline_host_ms:.4g} ms, launches included: what "
                "a user without CUDA graphs sees",
            )
        table.add_row("speedup", f"{timing.ratio:.3f} over {timing.baseline} (95 % interval {interval})")
    elif bound := evaluation.bound:
        table.add_row("bound", f"no run below {bound.milliseconds:.4g} ms on the target ({bound.limiter}); not a time")
    if tuned is not None:
        table.add_row("tuned", plain(tuned.tell(evaluation.timing.candidate_ms if evaluation.timing else None)))
    if evaluation.triton_share is not None:
        table.add_row("triton", f"{evaluation.triton_share:.0%} of the work is in the kernel's own Triton")
    return table


def tell_cost(usage: Usage) -> str:
    """What the answers of models cost, in a few words."""
    if not usage.calls:
        return "no model call"
    parts = [f"{usage.calls} model calls"]
    if usage.failed:
        parts[0] += f" ({usage.failed} failed)"
    estimated = f" ({usage.estimated} calls' estimated)" if usage.estimated else ""
    parts.append(f"{usage.tokens:,} tokens{estimated}")
    if usage.dollars:
        parts.append(f"${usage.dollars:.2f}")
    if usage.unpriced:
        parts.append(f"price of {usage.unpriced} calls unknown")
    return ", ".join(parts)
