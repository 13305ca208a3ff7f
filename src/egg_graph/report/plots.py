"""Plots as inline SVG: the attempts of a run, its times, and the roofline."""

import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from markupsafe import Markup

from egg_graph.schema import Attempt, Baseline, Evaluation, KernelTask, StageName

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

STAGE_COLORS: dict[StageName, str] = {
    "algorithmic_structure": "#3b6fb6",
    "parallel_mapping": "#c2762b",
    "tensor_tiling": "#3f8f5b",
    "memory_optimization": "#8a5aa8",
}
INK, FAINT, FAILED = "#2b2f36", "#9aa3ad", "#c0392b"


class Level(NamedTuple):
    """A time that the kernel's time is compared with."""

    name: str
    milliseconds: float
    style: str
    """Line style of matplotlib."""


def levels(baseline: Baseline, evaluation: Evaluation | None) -> tuple[Level, ...]:
    """Floor and baselines: from the timing of the best kernel where there is one, else from the baseline."""
    timing = None if evaluation is None else evaluation.timing
    eager = timing.eager_ms if timing else baseline.eager_ms
    compiled = timing.compile_ms if timing else baseline.compile_ms
    tuned = None if baseline.tuned is None else baseline.tuned.milliseconds
    found = [("roofline floor", baseline.floor_ms, ":"), ("eager", eager, "--"), ("torch.compile", compiled, "-.")]
    found.append(("tuned PyTorch", tuned, "-"))
    return tuple(Level(name, value, style) for name, value, style in found if value)


def attempts_plot(attempts: Sequence[Attempt], baseline: Baseline, evaluation: Evaluation | None) -> Markup | None:
    """Plot the time of each attempt, coloured by stage; hollow marks are lower bounds. None without attempts."""
    from matplotlib.ticker import MaxNLocator

    if not attempts:
        return None
    figure, axes = _figure(height=3.4)
    for attempt in attempts:
        _point(axes, attempt)
    lines = levels(baseline, evaluation)
    heights = [height for a in attempts if (height := _height(a.evaluation)) is not None]
    heights += [level.milliseconds for level in lines]
    if heights:
        axes.set_yscale("log")
        axes.set_ylim(min(heights) / 1.6, max(heights) * 1.6)
        _plain_ticks(axes.yaxis)
        _draw_levels(axes, lines)
    axes.set_xlabel("attempt")
    axes.set_ylabel("time, or bound (hollow) [ms]")
    axes.set_xlim(attempts[0].number - 0.6, attempts[-1].number + 0.6)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    _legend(axes, attempts)
    figure.subplots_adjust(left=0.09, right=0.80, bottom=0.16, top=0.86)
    return _svg(figure, "attempts")


def _draw_levels(axes: "Axes", lines: Sequence[Level]) -> None:
    """Draw horizontal lines, with their names at the right, apart from each other."""
    low, high = (math.log(limit) for limit in axes.get_ylim())
    label = -1.0
    for level in sorted(lines, key=lambda level: level.milliseconds):
        axes.axhline(level.milliseconds, color=FAINT, linestyle=level.style, linewidth=1.2, zorder=1)
        label = max((math.log(level.milliseconds) - low) / (high - low), label + 0.065)
        text = f"{level.name} {level.milliseconds:.3g} ms"
        axes.text(1.01, label, text, transform=axes.transAxes, fontsize=8, color=INK, va="center")


def _plain_ticks(axis: "Axis") -> None:
    """Mark the axis at 0.2, 0.5, 1, ... alone: a further mark takes a millisecond."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
    axis.set_minor_locator(NullLocator())


def _height(evaluation: Evaluation) -> float | None:
    """The measured time, else the lower bound [ms]; None where there is neither, or the kernel is not usable."""
    if not evaluation.usable:
        return None
    if evaluation.timing is not None:
        return evaluation.timing.candidate_ms
    return None if evaluation.bound is None else evaluation.bound.milliseconds


def _point(axes: "Axes", attempt: Attempt) -> None:
    color = STAGE_COLORS[attempt.candidate.stage]
    height = _height(attempt.evaluation)
    if height is None:
        where = axes.get_xaxis_transform()
        axes.plot([attempt.number], [0.04], "x", color=FAILED, transform=where, markersize=7, clip_on=False, zorder=4)
        return
    timed = attempt.evaluation.timing is not None
    face = color if timed else "white"
    size = 9 if attempt.improved else 6
    axes.plot([attempt.number], [height], "o", color=color, markerfacecolor=face, markersize=size, zorder=3)


def _legend(axes: "Axes", attempts: Sequence[Attempt]) -> None:
    from matplotlib.lines import Line2D

    present = [stage for stage in STAGE_COLORS if any(a.candidate.stage == stage for a in attempts)]
    marks = [
        Line2D([], [], marker="o", linestyle="", color=STAGE_COLORS[s], label=s.replace("_", " ")) for s in present
    ]
    if any(not a.evaluation.usable for a in attempts):
        marks.append(Line2D([], [], marker="x", linestyle="", color=FAILED, label="rejected"))
    axes.legend(handles=marks, loc="lower left", bbox_to_anchor=(0, 1.0), ncols=5, frameon=False, fontsize=8)


def times_plot(baseline: Baseline, evaluation: Evaluation | None) -> Markup | None:
    """Plot times as bars, the shortest first; None where there are fewer than two."""
    bars = [(level.name, level.milliseconds, FAINT) for level in levels(baseline, evaluation)]
    if evaluation is not None and evaluation.timing is not None:
        bars.append(("this kernel", evaluation.timing.candidate_ms, STAGE_COLORS["algorithmic_structure"]))
        if evaluation.timing.eager_fp32_ms:
            bars.append(("eager, fp32", evaluation.timing.eager_fp32_ms, "#d5d9de"))
    if evaluation is not None and evaluation.bound is not None:
        bars.append(("this kernel's bound", evaluation.bound.milliseconds, "#bcd0ea"))
    if len(bars) < 2:
        return None
    bars.sort(key=lambda bar: bar[1])
    figure, axes = _figure(height=0.6 + 0.34 * len(bars))
    axes.barh(
        [name for name, _, _ in bars], [ms for _, ms, _ in bars], color=[color for _, _, color in bars], height=0.62
    )
    for row, (_, milliseconds, _) in enumerate(bars):
        axes.annotate(f"{milliseconds:.4g} ms", (milliseconds, row), (4, -3), textcoords="offset points", fontsize=8)
    axes.invert_yaxis()
    axes.tick_params(left=False)
    axes.set_xlim(0, 1.15 * max(ms for _, ms, _ in bars))
    axes.set_xlabel("[ms]")
    figure.subplots_adjust(left=0.2, right=0.97, bottom=0.55 / figure.get_figheight(), top=0.97)
    return _svg(figure, "times")


def roofline_plot(task: KernelTask, baseline: Baseline, evaluation: Evaluation | None) -> Markup | None:
    """Plot the target's roofline with the kernel; None where the task has no matrix products."""
    bound = None if evaluation is None else evaluation.bound
    if evaluation is None or bound is None or not baseline.flops or not bound.dram_bytes:
        return None
    bandwidth, peak = task.target.figure("dram_bandwidth"), task.target.peak(task.precision)
    intensity = baseline.flops / bound.dram_bytes
    figure, axes = _figure(height=3.2)
    span = [min(intensity, peak / bandwidth) / 30, max(intensity, peak / bandwidth) * 30]
    ridge = peak / bandwidth
    axes.plot(
        [span[0], ridge, span[1]], [span[0] * bandwidth / 1e12, peak / 1e12, peak / 1e12], color=INK, linewidth=1.6
    )
    roof = min(peak, intensity * bandwidth) / 1e12
    color = STAGE_COLORS["algorithmic_structure"]
    axes.plot([intensity], [roof], "o", color=color, markerfacecolor="white", markersize=8)
    axes.annotate("bound", (intensity, roof), (6, 6), textcoords="offset points", fontsize=8)
    if evaluation.timing is not None:
        reached = baseline.flops / evaluation.timing.candidate_ms / 1e9
        axes.plot([intensity, intensity], [reached, roof], color=FAINT, linestyle=":", zorder=1)
        axes.plot([intensity], [reached], "o", color=color, markersize=8)
        axes.annotate(f"{reached:.3g} TFLOP/s", (intensity, reached), (8, -4), textcoords="offset points", fontsize=8)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("matrix-product flop per byte of DRAM traffic")
    axes.set_ylabel(f"TFLOP/s ({task.precision})")
    figure.subplots_adjust(left=0.11, right=0.95, bottom=0.17, top=0.95)
    return _svg(figure, "roofline")


def _figure(height: float) -> "tuple[Figure, Axes]":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.2, height))
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8, colors=INK)
    axes.xaxis.label.set_fontsize(9)
    axes.yaxis.label.set_fontsize(9)
    return figure, axes


def _svg(figure: "Figure", name: str) -> Markup:
    """Render the figure as an <svg> element. Text stays text, and identifiers differ between the plots of a page."""
    import matplotlib

    out = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name, "font.family": "sans-serif"}):
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    return Markup(text[text.index("<svg") :])  # every text in it is ours
