"""Make the page of a bench from its results and from the folders of its runs."""

import re
from functools import cache

import jinja2

from egg_graph.bench.figures import Figures
from egg_graph.bench.page.plots import class_plot, fast_plot, roofline_plot, tone_of
from egg_graph.bench.page.trajectory import Trajectories
from egg_graph.bench.protocol_card import NOT_MEASURED, protocol
from egg_graph.bench.statistics import BASELINES, TUNED, Interval, Statistics
from egg_graph.bench.table import causes, furthest, milliseconds, slower
from egg_graph.bench.values import Results
from egg_graph.report.template import page_template


def render(results: Results, figures: Figures, trajectories: Trajectories) -> str:
    """Make the page's HTML.

    Kernels, plans and reasons are hostile text: the template engine escapes all of it, and the page's content security
    policy forbids scripts and requests. References are not shown, because they may be other people's.

    Args:
        results: the rows with their terms.
        figures: those of these results.
        trajectories: what the runs tried; a run that is not there is told as such.
    """
    rows = results.whole
    groups = figures.groups
    links = {row.name: f"#{anchor(number)}" for number, row in enumerate(rows)}
    return _template().render(
        results=results,
        everything=groups[0],
        tiles=_tiles(groups[0]),
        groups=groups,
        plots={
            "classes": class_plot(rows, groups, links),
            "fast": fast_plot(rows),
            "roofline": roofline_plot(rows, links),
        },
        against=[(name, groups[0].against.get(name)) for name in BASELINES],
        tuned=TUNED,
        kernelbench=figures.kernelbench,
        causes=causes(rows),
        slower=slower(rows),
        furthest=furthest(rows),
        links=links,
        ablations=figures.ablations,
        problems=[(anchor(number), row, trajectories.of(row)) for number, row in enumerate(rows)],
        protocol=protocol(results),
        not_measured=NOT_MEASURED,
    )


@cache
def _template() -> jinja2.Template:
    """The page's template, compiled once per process: a bench writes its page after every row."""
    filters = {"figure": figure, "words": words, "ms": milliseconds, "tone": tone_of, "percent": percent}
    return page_template("egg_graph.bench.page", "bench.html.j2", filters)


def anchor(number: int) -> str:
    """Name of a problem's place on the page."""
    return f"p{number}"


def figure(interval: Interval | None, form: str = "{:.2f}") -> str:
    """A figure with its interval: `1.31 (1.22 to 1.40)`."""
    if interval is None:
        return NOT_MEASURED
    value, low, high = (form.format(x) for x in (interval.value, interval.low, interval.high))
    return f"{value} ({low} to {high})"


def percent(share: float | None) -> str:
    """A share as a whole percentage."""
    return NOT_MEASURED if share is None else f"{share:.0%}"


def words(name: str) -> str:
    """An identifier with spaces for underscores."""
    return re.sub(r"_+", " ", name).strip()


def _tiles(everything: Statistics) -> list[tuple[str, str, str]]:
    """The large figures: value, name, and what stands below."""
    mean, fast = everything.geometric_mean, everything.fast.get("1")
    right = f"{everything.right} of {everything.problems}"
    below = f"{everything.usable} handed over, {everything.kept} kept the reference, {everything.failed} not judged"
    tiles = [(right, "right", below)]
    if mean is None or fast is None:
        return [*tiles, (NOT_MEASURED, "speed", "nothing was timed")]
    speed = (
        f"{mean.value:.2f}x",
        "geometric mean of all",
        f"95 %: {mean.low:.2f} to {mean.high:.2f}; a failure is 1.0",
    )
    share = (f"{fast.value:.0%}", "fast_1", f"95 %: {fast.low:.0%} to {fast.high:.0%}")
    roof = everything.roofline
    found = [(f"{roof.value:.0%}", "of the roofline", "geometric mean of what is used")] if roof else []
    return [speed, *tiles, share, *found]
