"""Statistics of a bench, each with an interval: what a referee asks for, of all problems and of every group.

Every problem counts. One that ended without a kernel, or kept the reference, has the ratio 1.0; a kernel that is handed
over has its own ratio, also below 1. No ratio is clipped or left out. There is no arithmetic mean of ratios: a few
outliers decide such a mean.

Intervals are 95 % percentile intervals of a bootstrap with a fixed seed. A draw takes as many problems as there are,
with replacement, and moves each ratio by a normal error on the logarithm that fits the problem's own interval. So an
interval tells how much a figure depends on which problems there are, and on the noise of each measurement.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from egg_graph.bench.classes import CONVOLUTIONS
from egg_graph.bench.values import NO_RUN, Row
from egg_graph.schema import Value

THRESHOLDS = (0.0, 1.0, 1.5, 2.0)
"""Values of p for which fast_p is told."""
DRAWS = 2000
"""Draws of a bootstrap."""
WIDTH = 2 * 1.96
"""Width of a 95 % interval of a normal distribution, in standard deviations."""
TUNED = "tuned PyTorch"
"""The baseline with PyTorch's own switches turned."""
BASELINES = {
    "better of eager and torch.compile": "baseline_ms",
    "eager": "eager_ms",
    "torch.compile": "compile_ms",
    TUNED: "tuned_ms",
    "eager fp32": "eager_fp32_ms",
}
"""What a kernel's time is compared with, and the field of a row that holds its time."""


class Interval(Value):
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float


class Statistics(Value):
    """Statistics of one group of problems. What was not measured is None or absent."""

    group: str
    problems: int
    right: int
    """A right kernel was written, handed over or not."""
    usable: int
    """Ended with a kernel that may replace the reference."""
    timed: int
    """Usable and timed."""
    faster: int
    """Timed, and the whole interval of the ratio lies above 1."""
    kept: int
    """Ended with the reference, after attempts."""
    failed: int
    """Could not be made or judged: bad input, a failed machine, an unevaluable reference."""
    geometric_mean: Interval | None = None
    """Of all problems."""
    lower_quartile: Interval | None = None
    median: Interval | None = None
    upper_quartile: Interval | None = None
    lowest: float | None = None
    """Lowest ratio of a kernel that was handed over."""
    highest: float | None = None
    fast: dict[str, Interval] = {}
    """fast_p: the part of ALL problems that end with a kernel and a ratio above p; fast_0 counts the right ones."""
    against: dict[str, Interval] = {}
    """Geometric mean of the ratio to each baseline that was measured; 1.0 where there is no kernel."""
    roofline: Interval | None = None
    """Geometric mean of the roofline's floor over the time that a user is left with, where both are known; 1 is the
    roofline itself."""


class KernelBenchNumbers(Value):
    """KernelBench's own definitions (its score.py).

    A speed is the time of eager PyTorch over the kernel's, means are of correct kernels only, and fast_p counts the
    correct ones with a speed above p among all problems. Correct is its `torch.allclose`.
    """

    problems: int
    correct: int
    geometric_mean_correct_only: float
    geometric_mean_correct_and_faster_only: float
    fast: dict[str, float]


def summarize(rows: Sequence[Row], group: str = "all") -> Statistics:
    """Statistics of some rows, each of another problem.

    Args:
        rows: the rows.
        group: what they have in common.
    """
    usable = [row for row in rows if row.usable]
    timed = [row for row in usable if row.ratio is not None]
    counts: dict[str, Any] = {
        "problems": len(rows),
        "right": sum(row.right for row in rows),
        "usable": len(usable),
        "timed": len(timed),
        "faster": sum(row.ratio_low is not None and row.ratio_low > 1 for row in timed),
        "kept": sum(row.status == "reference_kept" for row in rows),
        "failed": sum(row.status in (*NO_RUN, "unevaluable") for row in rows),
    }
    if not timed:
        return Statistics(group=group, **counts)
    return Statistics(group=group, **counts, **_figures(rows, timed))


def _figures(rows: Sequence[Row], timed: Sequence[Row]) -> dict[str, Any]:
    draws = Draws(len(rows))
    logs = np.log([row.score for row in rows])
    error = draws.errors([_deviation(row) for row in rows])
    noise = logs[draws.index] + error
    right, usable = (np.array(which) for which in ([row.right for row in rows], [row.usable for row in rows]))

    def quantile(q: float) -> Interval:
        return draws.interval(noise, logs, lambda x: np.exp(np.quantile(x, q, axis=-1)))

    def fast(p: float) -> Interval:
        """Share above p; the noise of a ratio moves it, being right or wrong it does not."""
        if p == 0:
            return draws.interval(right[draws.index], right, _mean)
        drawn = usable[draws.index] & (noise > math.log(p))
        return draws.interval(drawn, usable & (logs > math.log(p)), _mean)

    ratios = [row.ratio for row in timed if row.ratio is not None]
    mean = draws.interval(noise, logs, exp_mean)
    others = {name: _against(rows, field, draws, error) for name, field in BASELINES.items() if field != "baseline_ms"}
    against = {name: others.get(name, mean) for name in BASELINES}
    return {
        "geometric_mean": mean,
        "lower_quartile": quantile(0.25),
        "median": quantile(0.5),
        "upper_quartile": quantile(0.75),
        "lowest": min(ratios),
        "highest": max(ratios),
        "fast": {f"{p:g}": fast(p) for p in THRESHOLDS},
        "against": {name: found for name, found in against.items() if found is not None},
        "roofline": _roofline(rows),
    }


def _against(rows: Sequence[Row], field: str, draws: "Draws", error: "np.ndarray[Any, Any]") -> Interval | None:
    """The geometric mean of the ratios of medians over one baseline; None where no kernel was measured against it.

    Args:
        rows: the rows.
        field: the baseline's time in a row.
        draws: the draws of these rows.
        error: the measurements' noise in each of them.
    """
    pairs = [(row, getattr(row, field)) for row in rows]
    if not any(row.usable and row.kernel_ms and time for row, time in pairs):
        return None
    logs = np.array(
        [math.log(time / row.kernel_ms) if row.usable and row.kernel_ms and time else 0.0 for row, time in pairs]
    )
    return draws.interval(logs[draws.index] + error, logs, exp_mean)


def _roofline(rows: Sequence[Row]) -> Interval | None:
    logs = np.array([math.log(row.of_roofline) for row in rows if row.of_roofline])
    if not len(logs):
        return None
    draws = Draws(len(logs))
    return draws.interval(logs[draws.index], logs, exp_mean)


def by_group(rows: Sequence[Row]) -> tuple[Statistics, ...]:
    """Statistics of all rows, of every section, of all convolutions and of every class.

    A group that would be all rows once more is left out.
    """
    groups: list[tuple[str, list[Row]]] = [("all", list(rows))]
    groups += [(name, [row for row in rows if row.section == name]) for name in _ordered(row.section for row in rows)]
    groups.append(("any convolution", [row for row in rows if row.operator_class in CONVOLUTIONS]))
    classes = sorted({row.operator_class for row in rows if row.operator_class})
    groups += [(name, [row for row in rows if row.operator_class == name]) for name in classes]
    kept = [(name, found) for name, found in groups if found and (name == "all" or len(found) < len(rows))]
    return tuple(summarize(found, name) for name, found in kept)


def kernelbench_numbers(rows: Sequence[Row]) -> KernelBenchNumbers | None:
    """KernelBench's own numbers; None where eager fp32 or its criterion was not measured for any kernel."""
    ratios = [speed for row in rows if (speed := kernelbench_speed(row))]
    if not any(row.kernelbench is not None and row.found_ms and row.eager_fp32_ms for row in rows):
        return None
    faster = [ratio for ratio in ratios if ratio > 1]
    return KernelBenchNumbers(
        problems=len(rows),
        correct=len(ratios),
        geometric_mean_correct_only=_geometric_mean(ratios),
        geometric_mean_correct_and_faster_only=_geometric_mean(faster),
        fast={f"{p:g}": sum(ratio > p for ratio in ratios) / len(rows) for p in THRESHOLDS},
    )


def kernelbench_speed(row: Row) -> float | None:
    """Speed of the best right attempt by KernelBench's definition; None for what is not correct by its criterion."""
    if row.kernelbench and row.found_ms and row.eager_fp32_ms:
        return row.eager_fp32_ms / row.found_ms
    return None


class Draws:
    """The draws of one bootstrap over `count` problems.

    Args:
        count: how many problems.
        seed: of the random numbers.
    """

    def __init__(self, count: int, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.index = self.random.integers(0, count, (DRAWS, count))

    def errors(self, deviations: Sequence[float]) -> "np.ndarray[Any, Any]":
        """The noise of every draw's logarithms [draws, problems], each from its own measurement's deviation."""
        error: np.ndarray[Any, Any] = self.random.standard_normal(self.index.shape)
        return error * np.array(deviations)[self.index]

    def interval(self, drawn: Any, given: Any, figure: Callable[[Any], Any]) -> Interval:
        """A figure of the given problems, with the 2.5 % and 97.5 % quantiles of it over the draws."""
        low, high = np.quantile(figure(drawn), [0.025, 0.975])
        return Interval(value=float(figure(given)), low=float(low), high=float(high))


def _mean(values: Any) -> Any:
    return np.mean(values, axis=-1)


def exp_mean(logs: Any) -> Any:
    """The geometric mean over the last axis, of logarithms."""
    return np.exp(np.mean(logs, axis=-1))


def _geometric_mean(ratios: Sequence[float]) -> float:
    return statistics.geometric_mean(ratios) if ratios else 0.0


def _deviation(row: Row) -> float:
    """Standard deviation of the logarithm of a row's ratio, from its interval; 0 where there is none."""
    if not row.usable or not row.ratio_low or not row.ratio_high:
        return 0.0
    return math.log(row.ratio_high / row.ratio_low) / WIDTH


def _ordered(names: Any) -> list[str]:
    return list(dict.fromkeys(filter(None, names)))
