"""Plots as inline SVG: the attempts of a run, its times, and the roofline."""

import math
from collections.abc import Sequence
from typing import NamedTuple, get_args

from markupsafe import Markup

from egg_graph.report.svg import Scale, bar, dot, draw, line, path, text, x_axis, y_axis
from egg_graph.schema import Attempt, Baseline, Evaluation, KernelTask, StageName

WIDTH = 960
LEFT, RIGHT = 64.0, 770.0
"""Where the plot of attempts begins and ends; the names of its levels stand at the right."""
TOP, BOTTOM = 56.0, 290.0
MOST_NUMBERS = 16
"""Most attempts whose number stands below them."""
LETTER = 6.6
"""Width of a letter, about."""


class Level(NamedTuple):
    """A time that the kernel's time is compared with."""

    name: str
    milliseconds: float
    kind: str
    """How its line is drawn: a class of the style sheet."""


def levels(baseline: Baseline, evaluation: Evaluation | None) -> tuple[Level, ...]:
    """Floor and baselines: from the timing of the best kernel where there is one, else from the baseline."""
    timing = None if evaluation is None else evaluation.timing
    eager = timing.eager_ms if timing else baseline.eager_ms
    compiled = timing.compile_ms if timing else baseline.compile_ms
    tuned = None if baseline.tuned is None else baseline.tuned.milliseconds
    found = [("roofline floor", baseline.floor_ms, "floor"), ("eager", eager, "eager")]
    found += [("torch.compile", compiled, "compiled"), ("tuned PyTorch", tuned, "tuned")]
    return tuple(Level(name, value, kind) for name, value, kind in found if value)


def attempts_plot(attempts: Sequence[Attempt], baseline: Baseline, evaluation: Evaluation | None) -> Markup | None:
    """Plot the time of each attempt, coloured by stage; hollow marks are lower bounds. None without attempts."""
    if not attempts:
        return None
    lines = levels(baseline, evaluation)
    heights = [height for a in attempts if (height := _height(a.evaluation)) is not None]
    heights += [level.milliseconds for level in lines]
    parts = [_legend(attempts), line(LEFT, BOTTOM, RIGHT, BOTTOM, "axis")]
    scale = None
    if heights:
        scale = Scale(min(heights) / 1.6, max(heights) * 1.6, BOTTOM, TOP)
        parts += [y_axis(scale, LEFT, RIGHT, "time, or bound (hollow) [ms]"), _draw_levels(scale, lines)]
    each = math.ceil(len(attempts) / MOST_NUMBERS)
    for place, attempt in enumerate(attempts):
        x = LEFT + (RIGHT - LEFT) * (place + 0.6) / (len(attempts) + 0.2)
        parts.append(_point(attempt, x, scale))
        if place % each == 0:
            parts.append(text(x, BOTTOM + 18, str(attempt.number), "tick", "middle"))
    parts.append(text((LEFT + RIGHT) / 2, BOTTOM + 38, "attempt", "label", "middle"))
    return draw(WIDTH, int(BOTTOM) + 48, parts, label="time of every attempt")


def _draw_levels(scale: Scale, lines: Sequence[Level]) -> Markup:
    """Draw horizontal lines, with their names at the right, apart from each other."""
    parts, label = [], math.inf
    for level in sorted(lines, key=lambda level: level.milliseconds):
        y = scale(level.milliseconds)
        label = min(y + 4, label - 15)
        parts += [
            line(LEFT, y, RIGHT, y, f"level {level.kind}"),
            text(RIGHT + 8, label, f"{level.name} {level.milliseconds:.3g} ms", "name"),
        ]
    return Markup("").join(parts)


def _height(evaluation: Evaluation) -> float | None:
    """The measured time, else the lower bound [ms]; None where there is neither, or the kernel is not usable."""
    if not evaluation.usable:
        return None
    if evaluation.timing is not None:
        return evaluation.timing.candidate_ms
    return None if evaluation.bound is None else evaluation.bound.milliseconds


def _point(attempt: Attempt, x: float, scale: Scale | None) -> Markup:
    """A circle at the attempt's time, larger where it is the best so far; a cross at the bottom where there is none."""
    height = _height(attempt.evaluation)
    if height is None or scale is None:
        return _cross(x, BOTTOM - 10)
    timed = attempt.evaluation.timing is not None
    kind = attempt.candidate.stage if timed else f"{attempt.candidate.stage} hollow"
    title = f"attempt {attempt.number}: {attempt.evaluation.status}, {height:.4g} ms{'' if timed else ' at least'}"
    return dot(x, scale(height), 6.0 if attempt.improved else 4.0, kind, title=title)


def _cross(x: float, y: float) -> Markup:
    return line(x - 4, y - 4, x + 4, y + 4, "rejected") + line(x - 4, y + 4, x + 4, y - 4, "rejected")


def _legend(attempts: Sequence[Attempt]) -> Markup:
    parts, x = [], LEFT + 6
    for stage in get_args(StageName):
        if any(attempt.candidate.stage == stage for attempt in attempts):
            name = stage.replace("_", " ")
            parts += [dot(x, 14, 5.0, stage, title=name), text(x + 12, 18, name, "name")]
            x += 40 + LETTER * len(name)
    if any(not attempt.evaluation.usable for attempt in attempts):
        parts += [_cross(x, 14), text(x + 12, 18, "rejected", "name")]
    return Markup("").join(parts)


def times_plot(baseline: Baseline, evaluation: Evaluation | None) -> Markup | None:
    """Plot times as bars, the shortest first; None where there are fewer than two."""
    bars = [(level.name, level.milliseconds, "baseline") for level in levels(baseline, evaluation)]
    if evaluation is not None and evaluation.timing is not None:
        bars.append(("this kernel", evaluation.timing.candidate_ms, "kernel"))
        if evaluation.timing.eager_fp32_ms:
            bars.append(("eager, fp32", evaluation.timing.eager_fp32_ms, "other"))
    if evaluation is not None and evaluation.bound is not None:
        bars.append(("this kernel's bound", evaluation.bound.milliseconds, "bound"))
    if len(bars) < 2:
        return None
    left, room, step = 160.0, WIDTH - 160.0 - 100.0, 30
    longest = max(milliseconds for _, milliseconds, _ in bars)
    parts = []
    for row, (name, milliseconds, kind) in enumerate(sorted(bars, key=lambda one: one[1])):
        middle, width = 16.0 + step * row, room * milliseconds / longest
        parts += [
            text(left - 10, middle + 4, name, "name", "end"),
            bar(left, middle - 9, width, 18, kind),
            text(left + width + 8, middle + 4, f"{milliseconds:.4g} ms", "value"),
        ]
    bottom = 4 + step * len(bars)
    parts.append(line(left, 2, left, bottom, "axis"))
    return draw(WIDTH, bottom + 4, parts, label="the kernel's time beside those of its baselines")


def roofline_plot(task: KernelTask, baseline: Baseline, evaluation: Evaluation | None) -> Markup | None:
    """Plot the target's roofline with the kernel; None where the task has no matrix products."""
    bound = None if evaluation is None else evaluation.bound
    if evaluation is None or bound is None or not baseline.flops or not bound.dram_bytes:
        return None
    bandwidth, peak = task.target.figure("dram_bandwidth"), task.target.peak(task.precision)
    intensity, ridge = baseline.flops / bound.dram_bytes, peak / bandwidth
    first, last = min(intensity, ridge) / 30, max(intensity, ridge) * 30
    roof = min(peak, intensity * bandwidth) / 1e12
    timing = evaluation.timing
    reached = None if timing is None else baseline.flops / timing.candidate_ms / 1e9
    top, bottom = 36.0, 300.0
    x = Scale(first, last, LEFT, WIDTH - 20.0)
    y = Scale(min(first * bandwidth / 1e12, reached or roof) / 1.5, peak / 1e12 * 1.5, bottom, top)
    parts = [
        x_axis(x, top, bottom, "matrix-product flop per byte of DRAM traffic"),
        y_axis(y, LEFT, WIDTH - 20.0, f"TFLOP/s ({task.precision})"),
        path([(x(at), y(min(peak, at * bandwidth) / 1e12)) for at in (first, ridge, last)], "roof"),
    ]
    if reached is not None:
        parts.append(line(x(intensity), y(reached), x(intensity), y(roof), "level floor"))
        parts.append(dot(x(intensity), y(reached), 6.0, "kernel", title=f"measured: {reached:.3g} TFLOP/s"))
        parts.append(text(x(intensity) + 12, y(reached) + 4, f"{reached:.3g} TFLOP/s", "name"))
    parts.append(dot(x(intensity), y(roof), 6.0, "kernel hollow", title=f"bound: {roof:.3g} TFLOP/s"))
    parts.append(text(x(intensity) + 12, y(roof) - 8, "bound", "name"))
    return draw(WIDTH, int(bottom) + 48, parts, label="the kernel under the target's roofline")
