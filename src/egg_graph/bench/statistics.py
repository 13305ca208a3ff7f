"""What a table of rows comes to. Means of ratios are left out: a few outliers make them."""

import math
import statistics
from collections.abc import Sequence

from pydantic import Field

from egg_graph.bench.values import Row
from egg_graph.schema import USABLE, Value

THRESHOLDS = (1.0, 1.1, 1.2, 1.5, 2.0)


class Summary(Value):
    """Over all rows of a suite."""

    problems: int
    usable: int
    """Rows that ended with a kernel that may replace the reference."""
    timed: int
    geometric_mean: float | None = None
    """Of the ratios of timed kernels, slower ones included."""
    median: float | None = None
    geometric_mean_as_used: float | None = None
    """The same over all problems, where the reference is kept (1.0) unless the kernel was found faster."""
    fast: dict[str, float] = Field(default={})
    """fast_p: the part of ALL problems whose kernel is usable and has a ratio above p."""


def summarize(rows: Sequence[Row]) -> Summary:
    """Summarize a suite's rows."""
    usable = [row for row in rows if row.status in USABLE]
    ratios = [row.ratio for row in usable if row.ratio is not None]
    if not ratios:
        return Summary(problems=len(rows), usable=len(usable), timed=0)
    used = [row.ratio if row.status == "faster" and row.ratio else 1.0 for row in rows]
    return Summary(
        problems=len(rows),
        usable=len(usable),
        timed=len(ratios),
        geometric_mean=geometric_mean(ratios),
        median=statistics.median(ratios),
        geometric_mean_as_used=geometric_mean(used),
        fast={f"{p:g}": sum(ratio > p for ratio in ratios) / len(rows) for p in THRESHOLDS},
    )


def geometric_mean(values: Sequence[float]) -> float:
    """Geometric mean of positive numbers."""
    return math.exp(statistics.fmean(math.log(value) for value in values))
