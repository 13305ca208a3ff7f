"""The results of a suite as a Markdown page."""

from egg_graph.bench.provenance import describe_machine
from egg_graph.bench.values import Results, Row, Summary, summarize
from egg_graph.bench.writing import markdown_table
from egg_graph.schema import USABLE

_TIMED = (
    "problem",
    "verdict",
    "kernel",
    "eager",
    "compile",
    "eager fp32",
    "ratio (95 % interval)",
    "error / budget",
    "Triton",
)
_UNTIMED = ("problem", "verdict", "bound [ms]", "floor [ms]", "error / budget", "Triton", "attempts", "took [s]")


def markdown(results: Results) -> str:
    """A page with the settings, the summary and one line a problem."""
    timed = any(row.kernel_ms is not None for row in results.rows)
    header = _TIMED if timed else _UNTIMED
    cells = [_timed(row) if timed else _untimed(row) for row in results.rows]
    lines = [f"# {results.name}", "", _settings(results), "", *_summary(summarize(results.rows)), ""]
    lines += markdown_table(header, cells)
    if timed:
        lines += ["", "Times in milliseconds. " + results.statistic]
    else:
        lines += ["", "Nothing was timed: a bound limits a kernel's time from below, and is never a speed."]
    return "\n".join(lines) + "\n"


def _settings(results: Results) -> str:
    return (
        f"egg-graph {results.version}, started {results.started}; {results.model}; "
        f"precision {results.precision}; written for {results.target}; {describe_machine(results.environment)}. "
        "One run a problem."
    )


def _summary(summary: Summary) -> list[str]:
    lines = [f"{summary.usable} of {summary.problems} problems ended with a usable kernel."]
    if summary.geometric_mean is not None:
        fast = ", ".join(f"fast_{p} {share:.0%}" for p, share in summary.fast.items())
        lines.append(
            f"Ratio over the {summary.timed} timed kernels: geometric mean {summary.geometric_mean:.3f}, median "
            f"{summary.median:.3f}; over all problems, with the reference kept unless the kernel is faster: "
            f"{summary.geometric_mean_as_used:.3f}. {fast}."
        )
    return lines


def _timed(row: Row) -> list[str]:
    ratio = "-" if row.ratio is None else f"{row.ratio:.3f} ({row.ratio_low:.3f} to {row.ratio_high:.3f})"
    times = [_ms(time) for time in (row.kernel_ms, row.eager_ms, row.compile_ms, row.eager_fp32_ms)]
    return [row.name, _verdict(row), *times, ratio, _error(row), _share(row)]


def _untimed(row: Row) -> list[str]:
    figures = [_ms(row.bound_ms), _ms(row.floor_ms), _error(row), _share(row)]
    return [row.name, _verdict(row), *figures, str(row.attempts), f"{row.seconds:.0f}"]


def _verdict(row: Row) -> str:
    status = row.status.replace("_", " ")
    return status if row.status in USABLE else f"{status}: {row.reason}"


def _ms(milliseconds: float | None) -> str:
    return "-" if milliseconds is None else f"{milliseconds:.4g}"


def _error(row: Row) -> str:
    return "-" if row.error is None or row.budget is None else f"{row.error:.1e} / {row.budget:.1e}"


def _share(row: Row) -> str:
    return "-" if row.triton_share is None else f"{row.triton_share:.0%}"
