"""The page of `times`: medians beside what they may be, and a line for each problem."""

from statistics import median

from egg_graph.bench.writing import markdown_table
from tests.lab.times_rows import FIGURES, Figure, TimesResults, TimesRow, figures_of

GIB = float(1 << 30)


def summary(results: TimesResults) -> dict[str, dict[str, float | str | int | None]]:
    """Each figure's median and worst value, over how many problems, and whether they are what is asked."""
    told: dict[str, dict[str, float | str | int | None]] = {}
    for name, figure in FIGURES.items():
        values = _values(results, name)
        middle, worst = (median(values), max(values)) if values else (None, None)
        told[name] = {"median": middle, "worst": worst, "problems": len(values), "told": figure.told(values)}
    return told


def times_page(results: TimesResults) -> str:
    """The rows as a Markdown page."""
    lines = ["# Times of runs and evaluations", ""]
    lines += [f"{results.terms.line} Precision {results.precision}; the embedded expert, its tuner on; seconds.", ""]
    lines += [
        f"{len(results.rows)} of {results.asked} problems, {results.gpus} at a time, each on a GPU of its own.",
        "",
    ]
    lines += [*_figures(results), "", *_remarks(results), "", *_problems(results)]
    return "\n".join(lines) + "\n"


def _figures(results: TimesResults) -> list[str]:
    header = ["figure", "at most", "median", "worst", "problems", "", *(["before", "after"] * bool(results.before))]
    rows = []
    for name, figure in FIGURES.items():
        values = _values(results, name)
        row = [figure.words, _shown(figure.floor), _median(values), _shown(max(values, default=None))]
        row += [str(len(values)), figure.told(values)]
        rows.append(row + (_compared(results, name) if results.before else []))
    lines = markdown_table(header, rows)
    if results.before:
        lines += ["", f"Before: {results.before} Both columns: medians over the problems that have the figure in both."]
    return lines


def _remarks(results: TimesResults) -> list[str]:
    finalists = "profiled, as in a user's run" if results.profile else "not profiled; in a user's run they are"
    return [
        "Cold start: from the begin of the baseline, which starts the judge, to the end of the first evaluation, less "
        "the coder's time. Whole run: the call of `optimize`; imports count in the first one alone. Warm: the run's "
        "first right kernel, judged the second time after the run has ended. With its profile: a warm evaluation, and "
        "the part `profile` of an evaluation by a second evaluator. Wrong kernel: the same one with `+ 1.0` at a "
        f"stored value. Finalists are {finalists}. KernelBench: `eval_kernel_against_ref`, backend triton, 5 "
        "correctness and 100 performance trials, every kernel of a GPU in one process; cold is that process's start "
        "and the kernel's first call, warm the median of further calls. A kernel that KernelBench calls wrong has no "
        "ratio, for it is not timed. Memory: most in use by all processes, KernelBench's apart."
    ]


def _problems(results: TimesResults) -> list[str]:
    header = ["problem", "end", "ratio", "whole", "baseline (start)", "cold", "warm", "with profile", "wrong"]
    header += ["a configuration (of)", "finalist", "KernelBench cold", "warm", "ratio", "peak [GiB]", "notes"]
    return markdown_table(header, [_line(row) for row in sorted(results.rows, key=lambda row: row.problem)])


def _line(row: TimesRow) -> list[str]:
    values, theirs = figures_of(row), row.kernelbench
    shown = {name: _shown(values.get(name)) for name in FIGURES}
    start = f" ({_shown(row.baseline.parts.get('start', 0.0))})" if row.baseline is not None else ""
    count = f" ({' + '.join(str(n) for n, _ in row.sweeps)})" if row.sweeps else ""
    return [
        row.problem,
        row.status or "-",
        _shown(row.ratio),
        shown["whole"],
        shown["baseline"] + start,
        shown["cold"],
        shown["warm"],
        shown["warm_with_profile"],
        shown["wrong"],
        shown["configuration"] + count,
        shown["finalist"],
        _shown(theirs.cold_seconds if theirs is not None else None),
        _shown(row.kernelbench_seconds),
        shown["over_kernelbench"],
        f"{row.peak_bytes / GIB:.1f}" if row.peak_bytes else "-",
        "; ".join(row.notes),
    ]


def _compared(results: TimesResults, name: str) -> list[str]:
    """The medians of a figure before and after, over the same problems."""
    now = {row.problem: figures_of(row) for row in results.rows}
    both = [p for p, before in results.figures_before.items() if name in before and name in now.get(p, {})]
    return [_median([results.figures_before[p][name] for p in both]), _median([now[p][name] for p in both])]


def _values(results: TimesResults, name: str) -> list[float]:
    figure: Figure = FIGURES[name]
    return [value for row in results.rows if (value := figure.of(row)) is not None]


def _median(values: list[float]) -> str:
    return _shown(median(values) if values else None)


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
