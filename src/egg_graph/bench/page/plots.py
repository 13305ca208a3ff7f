"""The plots of a bench's page: ratios by class, fast_p as a curve, and every problem against the roofline."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from markupsafe import Markup

from egg_graph.bench.page.svg import Scale, dot, draw, line, path, span, text, x_axis, y_axis
from egg_graph.bench.statistics import Draws, Statistics, kernelbench_speed
from egg_graph.bench.values import Row

WIDTH = 960
LANE = 34
"""Height of one class in the plot by class."""
GRID = 80
"""Values of p at which the curve of fast_p is drawn."""
Links = Mapping[str, str]
"""Address of each problem on the page, by its name."""


def tone_of(row: Row) -> str:
    """How a row is coloured: `good` faster with confidence, `fair` usable, `none` without a kernel."""
    if not row.usable:
        return "none"
    return "good" if row.ratio_low is not None and row.ratio_low > 1 else "fair"


def class_plot(rows: Sequence[Row], groups: Sequence[Statistics], links: Links) -> Markup | None:
    """One lane a class: every problem a dot at its ratio, the geometric mean with its interval. None if nothing was
    timed."""
    lanes = [(group, _of(rows, group.group)) for group in groups if group.group != "any convolution"]
    lanes = [lane for lane in lanes if lane[1]]
    if not lanes or groups[0].geometric_mean is None:
        return None
    left, bottom = 232, 16 + LANE * len(lanes)
    means = [group.geometric_mean for group, _ in lanes if group.geometric_mean]
    ends = [end for mean in means for end in (mean.low, mean.high)]
    low, high = span([*(row.score for row in rows), *ends], least=(0.8, 1.6))
    scale = Scale(low, high, left, WIDTH - 70)
    parts = [x_axis(scale, 8, bottom, "ratio to the better of eager and torch.compile", unit="x")]
    parts.append(line(scale(1), 8, scale(1), bottom, "one"))
    for number, (group, found) in enumerate(lanes):
        parts.append(_lane(group, found, scale, 8 + LANE * (number + 0.5), left, links))
    return draw(WIDTH, bottom + 48, parts, label="ratio of every problem, by class")


def _of(rows: Sequence[Row], group: str) -> list[Row]:
    """The rows of a class; of `all` every row. Sections have no lane of their own."""
    return list(rows) if group == "all" else [row for row in rows if row.operator_class == group]


def _lane(group: Statistics, rows: Sequence[Row], scale: Scale, y: float, left: float, links: Links) -> Markup:
    parts = [text(left - 14, y + 4, f"{group.group} ({group.problems})", "name", "end")]
    for place, row in enumerate(sorted(rows, key=lambda row: row.score)):
        lift = (place % 3 - 1) * 5.0  # neighbours lie beside each other rather than on each other
        title = f"{row.name}: {row.score:.3f}x ({row.status.replace('_', ' ')})"
        parts.append(dot(scale(row.score), y + lift, 3.6, tone_of(row), title=title, href=links.get(row.name, "")))
    mean = group.geometric_mean
    if mean is not None:
        parts.append(line(scale(mean.low), y, scale(mean.high), y, "interval"))
        x = scale(mean.value)
        parts.append(path([(x - 6, y), (x, y - 6), (x + 6, y), (x, y + 6)], "mean", closed=True))
        parts.append(text(WIDTH - 4, y + 4, f"{mean.value:.2f}x", "value", "end"))
    return Markup("").join(parts)


def fast_plot(rows: Sequence[Row]) -> Markup | None:
    """The part of all problems with a ratio above p, over p, with its interval; and the same by KernelBench's terms.

    None if nothing was timed.
    """
    if not any(row.usable and row.ratio is not None for row in rows):
        return None
    paper = [kernelbench_speed(row) or 0.0 for row in rows]
    low, high = span([*(row.score for row in rows), *filter(None, paper)], least=(0.5, 3.0), room=1.05)
    x, top, bottom, left = Scale(low, high, 60, WIDTH - 20), 20.0, 300.0, 60.0

    def y(share: float) -> float:
        return bottom - (bottom - top) * share

    parts = [x_axis(x, top, bottom, "p"), line(x(1), top, x(1), bottom, "one")]
    for share in (0, 0.25, 0.5, 0.75, 1):
        parts += [
            line(left, y(share), WIDTH - 20, y(share), "grid"),
            text(left - 8, y(share) + 4, f"{share:.0%}", "tick", "end"),
        ]
    grid = np.geomspace(low, high, GRID)
    ours = np.array([row.score if row.usable and row.ratio is not None else 0.0 for row in rows])
    lows, highs = _band(ours, grid)
    band = [(x(p), y(share)) for p, share in zip(grid, highs, strict=True)]
    band += [(x(p), y(share)) for p, share in zip(grid[::-1], lows[::-1], strict=True)]
    parts.append(path(band, "band", closed=True))
    parts.append(path(_steps(ours, x, y), "curve"))
    if any(paper):
        parts.append(path(_steps(np.array(paper), x, y), "curve other"))
        parts.append(text(WIDTH - 24, 50, "dashed: KernelBench's definition, against eager fp32", "label", "end"))
    parts.append(text(WIDTH - 24, 34, "solid: this protocol, with its 95 % interval", "label", "end"))
    return draw(WIDTH, 346, parts, label="part of all problems faster than p")


def _band(ratios: "np.ndarray", grid: "np.ndarray") -> tuple["np.ndarray", "np.ndarray"]:
    drawn = ratios[Draws(len(ratios)).index]
    shares = np.stack([np.mean(drawn > p, axis=-1) for p in grid])
    low, high = np.quantile(shares, [0.025, 0.975], axis=-1)
    return low, high


def _steps(ratios: "np.ndarray", x: Scale, y: Callable[[float], float]) -> list[tuple[float, float]]:
    """Points of the falling stairs of the part above p."""
    inside = sorted(r for r in ratios if x.low < r < x.high)
    points, count = [], len(ratios)
    share = float(np.mean(ratios > x.low))
    points.append((x(x.low), y(share)))
    for ratio in inside:
        points.append((x(ratio), y(share)))
        share -= 1 / count
        points.append((x(ratio), y(share)))
    points.append((x(x.high), y(share)))
    return points


def roofline_plot(rows: Sequence[Row], links: Links) -> Markup | None:
    """Every problem against the roofline: time over the least time that the roofline allows, kernel and baseline.

    None if no problem has a time and a floor.
    """
    known = [row for row in rows if row.floor_ms and row.used_ms]
    if not known:
        return None
    left, right, top, bottom = 70.0, WIDTH - 20.0, 30.0, 470.0
    floors = [row.floor_ms for row in known if row.floor_ms]
    times = [time for row in known for time in (row.used_ms, row.baseline_ms) if time]
    x = Scale(*span(floors), left, right)
    y = Scale(*span([*times, min(floors)], room=1.3), bottom, top)
    parts = [x_axis(x, top, bottom, "least time by the roofline [ms]"), y_axis(y, left, right, "time [ms]")]
    for factor, words in ((1, "the roofline"), (2, "half of it"), (10, "a tenth")):
        parts.append(_diagonal(x, y, factor, words))
    for row in sorted(known, key=lambda row: row.usable):
        parts.append(_against_floor(row, x, y, links))
    return draw(WIDTH, int(bottom) + 48, parts, label="time of every problem over the roofline's least time")


def _diagonal(x: Scale, y: Scale, factor: float, words: str) -> Markup:
    """The line of a time `factor` times the floor, as far as both axes go."""
    low, high = max(x.low, y.low / factor), min(x.high, y.high / factor)
    if low >= high:
        return Markup("")
    slope = math.degrees(math.atan2(y(low * factor) - y(high * factor), x(high) - x(low)))
    kind = "roof" if factor == 1 else "roof far"
    turned = Markup('<text class="label" transform="translate({:.1f},{:.1f}) rotate({:.1f})">{}</text>')
    label = turned.format(x(low) + 8, y(low * factor) - 10, -slope, words)
    return line(x(low), y(low * factor), x(high), y(high * factor), kind) + label


def _against_floor(row: Row, x: Scale, y: Scale, links: Links) -> Markup:
    """Hollow the faster baseline, filled the kernel, a line between them."""
    parts, floor = [], row.floor_ms or 0.0
    href, share = links.get(row.name, ""), f"{floor / (row.used_ms or 1):.0%} of the roofline"
    kernel = row.kernel_ms if row.usable else None
    if row.baseline_ms and kernel:
        parts.append(line(x(floor), y(row.baseline_ms), x(floor), y(kernel), "gain"))
    if row.baseline_ms:
        title = f"{row.name}: PyTorch {row.baseline_ms:.4g} ms"
        parts.append(dot(x(floor), y(row.baseline_ms), 3.2, "hollow", title=title, href=href))
    if kernel:
        title = f"{row.name}: kernel {kernel:.4g} ms, {share}"
        parts.append(dot(x(floor), y(kernel), 4.0, tone_of(row), title=title, href=href))
    return Markup("").join(parts)
