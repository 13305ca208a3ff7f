"""The results of a bench as a Markdown page."""

from collections.abc import Sequence

from egg_graph.bench.ablation import Ablation
from egg_graph.bench.figures import Figures
from egg_graph.bench.protocol_card import NOT_MEASURED, protocol
from egg_graph.bench.statistics import (
    BASELINES,
    TUNED,
    Interval,
    KernelBenchNumbers,
    Statistics,
)
from egg_graph.bench.values import Results, Row
from egg_graph.bench.writing import markdown_table
from egg_graph.schema import USABLE

_TIMED = (
    "problem",
    "class",
    "verdict",
    "kernel",
    "eager",
    "compile",
    "tuned",
    "eager fp32",
    "ratio (95 % interval)",
    "to tuned",
    "of the roofline",
    "error / budget",
    "Triton",
)
_UNTIMED = (
    "problem",
    "class",
    "verdict",
    "bound [ms]",
    "floor [ms]",
    "error / budget",
    "Triton",
    "attempts",
    "took [s]",
)
_GROUPS = (
    "group",
    "problems",
    "right",
    "handed over",
    "geometric mean",
    "against tuned",
    "quartiles",
    "fast_0",
    "fast_1",
    "fast_1.5",
    "fast_2",
    "of the roofline",
)
FURTHEST = 20
"""How many of the problems furthest from the roofline are named."""


def markdown(results: Results, figures: Figures) -> str:
    """A page with the protocol, the statistics, the ablations and one line a problem."""
    rows = results.whole
    timed = any(row.kernel_ms is not None for row in rows)
    lines = [f"# {results.name}", "", *headline(results, figures.groups[0]), ""]
    if timed:
        lines += [*group_table(figures.groups), "", *baseline_table(figures.groups[0]), ""]
        lines += [*_kernelbench(figures.kernelbench), ""]
    lines += _ablations(figures.ablations)
    lines += _failures(rows)
    lines += _slower(rows)
    lines += _far(rows)
    lines += markdown_table(_TIMED if timed else _UNTIMED, [_timed(row) if timed else _untimed(row) for row in rows])
    if timed:
        lines += ["", "Times in milliseconds. " + results.statistic]
    else:
        lines += ["", "Nothing was timed: a bound limits a kernel's time from below, and is never a speed."]
    lines += ["", "## Protocol", "", *markdown_table(("term", "value"), protocol(results))]
    return "\n".join(lines) + "\n"


def headline(results: Results, all_rows: Statistics) -> list[str]:
    """What a bench came to, in a few lines.

    Args:
        results: the rows with their terms.
        all_rows: the statistics of `results.whole`.
    """
    done = len(results.whole)
    of = results.problems if results.problems is not None else done
    lines = [
        f"{all_rows.right} of {done} problems have a right kernel, {all_rows.usable} were handed one, "
        f"{all_rows.faster} a faster one with confidence; {all_rows.kept} kept the reference, "
        f"{all_rows.failed} could not be judged."
    ]
    if done < of:
        lines.append(f"**The bench is not done: {done} of {of} problems.** The same command goes on with it.")
    if why := _tuned_missing(results):
        lines.append(f"Tuned PyTorch was asked for and not measured: {why}.")
    if all_rows.geometric_mean is not None:
        mean, median = _with_interval(all_rows.geometric_mean), _with_interval(all_rows.median)
        lines += ["", f"Geometric mean over all {done}: **{mean}**, median {median}."]
        if TUNED in all_rows.against:
            lines.append(f"Against tuned PyTorch: **{_with_interval(all_rows.against[TUNED])}**.")
        lines.append(f"Lowest and highest ratio of a kernel: {all_rows.lowest:.3f} and {all_rows.highest:.3f}.")
    return lines


def _tuned_missing(results: Results) -> str:
    """Why tuned PyTorch was measured for no problem; empty where it was, or nobody asked for it."""
    rows = results.whole
    if not results.settings.get("tuned_baseline") or not rows or any(row.tuned_ms is not None for row in rows):
        return ""
    if results.environment is None or results.environment.gpu is None:
        return "it is timed, and there is no GPU where the bench was judged"
    return next((row.tuned for row in rows if row.tuned), "no problem came so far")


def group_table(groups: tuple[Statistics, ...]) -> list[str]:
    """The statistics by group. Failures and kept references count as 1.0."""
    told = (
        "Ratio to the better of eager and torch.compile at equal precision; a problem without a kernel counts as 1.0."
    )
    return [told, "", *markdown_table(_GROUPS, [_group(group) for group in groups])]


def _group(group: Statistics) -> list[str]:
    counts = [group.group, str(group.problems), str(group.right), str(group.usable)]
    if group.geometric_mean is None or group.lower_quartile is None or group.upper_quartile is None:
        return [*counts, *[NOT_MEASURED] * (len(_GROUPS) - len(counts))]
    quartiles = f"{group.lower_quartile.value:.2f}, {_value(group.median)}, {group.upper_quartile.value:.2f}"
    fast = [f"{share.value:.0%} ({share.low:.0%} to {share.high:.0%})" for share in group.fast.values()]
    roofline = f"{group.roofline.value:.0%}" if group.roofline else NOT_MEASURED
    means = [_with_interval(group.geometric_mean), _with_interval(group.against.get(TUNED))]
    return [*counts, *means, quartiles, *fast, roofline]


def baseline_table(all_rows: Statistics) -> list[str]:
    """Geometric means of all rows, against each baseline."""
    cells = [
        [name, _with_interval(all_rows.against[name]) if name in all_rows.against else NOT_MEASURED]
        for name in BASELINES
    ]
    return markdown_table(("all problems, against", "geometric mean (95 % interval)"), cells)


def _kernelbench(numbers: KernelBenchNumbers | None) -> list[str]:
    if numbers is None:
        return ["KernelBench's own numbers: not measured."]
    fast = ", ".join(f"fast_{p} {share:.0%}" for p, share in numbers.fast.items())
    return [
        f"KernelBench's own numbers, by its definitions: {numbers.correct} of {numbers.problems} correct; geometric "
        f"mean of the correct ones {numbers.geometric_mean_correct_only:.3f}, of the correct and faster ones "
        f"{numbers.geometric_mean_correct_and_faster_only:.3f}; {fast}. Against eager fp32, by medians."
    ]


def _ablations(found: tuple[Ablation, ...]) -> list[str]:
    if not found:
        return []
    header = (
        "without",
        "pairs",
        "usable, and with it",
        "with it over without it",
        "better with it",
        "worse with it",
        "time",
    )
    return ["## Ablations", "", *markdown_table(header, [_ablation(one) for one in found]), ""]


def _ablation(one: Ablation) -> list[str]:
    gain = _with_interval(one.gain) if one.gain else NOT_MEASURED
    time = f"{one.seconds_ratio:.2f}x" if one.seconds_ratio is not None else "-"
    return [
        one.without,
        str(one.pairs),
        f"{one.usable}, {one.usable_whole}",
        gain,
        str(one.better),
        str(one.worse),
        time,
    ]


def causes(rows: Sequence[Row]) -> list[tuple[str, list[str]]]:
    """Why problems have no kernel, the most frequent cause first, each with the problems' names."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if not row.usable:
            found.setdefault(cause_of(row), []).append(row.name)
    return sorted(found.items(), key=lambda item: -len(item[1]))


def _failures(rows: Sequence[Row]) -> list[str]:
    found = causes(rows)
    if not found:
        return []
    told = [f"- {cause} ({len(names)}): {', '.join(names)}" for cause, names in found]
    return ["Without a kernel, by cause:", "", *told, ""]


def slower(rows: Sequence[Row]) -> list[Row]:
    """Kernels that were handed over although they are slower than the reference, the slowest first."""
    return sorted((row for row in rows if row.score < 1), key=lambda row: row.score)


def furthest(rows: Sequence[Row]) -> list[Row]:
    """The problems furthest from the roofline, by what a user is left with, the furthest first."""
    known = [row for row in rows if row.of_roofline is not None]
    return sorted(known, key=lambda row: row.of_roofline or 0.0)[:FURTHEST]


def _slower(rows: Sequence[Row]) -> list[str]:
    names = [f"{row.name} {row.score:.3f}" for row in slower(rows)]
    return [f"Handed over below 1.0 ({len(names)}): {', '.join(names)}.", ""] if names else []


def _far(rows: Sequence[Row]) -> list[str]:
    names = [f"{row.name} {row.of_roofline:.1%}" for row in furthest(rows)]
    return [f"Furthest from the roofline: {', '.join(names)}.", ""] if names else []


def cause_of(row: Row) -> str:
    """Why a row has no kernel, in a few words."""
    return " ".join(filter(None, (row.status.replace("_", " "), row.cause and f"({row.cause.replace('_', ' ')})")))


def _timed(row: Row) -> list[str]:
    ratio = "-" if row.ratio is None else f"{row.ratio:.3f} ({row.ratio_low:.3f} to {row.ratio_high:.3f})"
    times = [
        milliseconds(time) for time in (row.kernel_ms, row.eager_ms, row.compile_ms, row.tuned_ms, row.eager_fp32_ms)
    ]
    roofline = "-" if row.of_roofline is None else f"{row.of_roofline:.0%}"
    tuned = "-" if row.tuned_ratio is None else f"{row.tuned_ratio:.3f}"
    return [row.name, row.operator_class, _verdict(row), *times, ratio, tuned, roofline, _error(row), _share(row)]


def _untimed(row: Row) -> list[str]:
    figures = [milliseconds(row.bound_ms), milliseconds(row.floor_ms), _error(row), _share(row)]
    return [row.name, row.operator_class, _verdict(row), *figures, str(row.attempts), f"{row.seconds:.0f}"]


def _verdict(row: Row) -> str:
    status = row.status.replace("_", " ")
    return status if row.status in USABLE else f"{status}: {row.reason}"


def milliseconds(time: float | None) -> str:
    """A time with four digits; "-" where there is none."""
    return "-" if time is None else f"{time:.4g}"


def _error(row: Row) -> str:
    return "-" if row.error is None or row.budget is None else f"{row.error:.1e} / {row.budget:.1e}"


def _share(row: Row) -> str:
    return "-" if row.triton_share is None else f"{row.triton_share:.0%}"


def _value(interval: Interval | None) -> str:
    return NOT_MEASURED if interval is None else f"{interval.value:.2f}"


def _with_interval(interval: Interval | None) -> str:
    return NOT_MEASURED if interval is None else f"{interval.value:.3f} ({interval.low:.3f} to {interval.high:.3f})"
