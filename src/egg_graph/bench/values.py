"""The results of a suite: one row a reference, the settings of all runs, and the summary of the rows."""

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field

from egg_graph.schema import USABLE, Baseline, Environment, Evaluation, KernelTask, Precision, Usage, Value

if TYPE_CHECKING:
    from egg_graph import Run

STATISTIC = (
    "Medians over interleaved pairs, in milliseconds; ratio is the faster of eager and torch.compile over the kernel, "
    "both at the policy's precision, with a 95 % bootstrap interval; error is the relative L2 error against fp64 of "
    "the check nearest to its budget."
)


class Row(Value):
    """One reference. Times are None where nothing was timed; `bound_ms` and `floor_ms` are never times."""

    name: str
    task: str
    """`KernelTask.digest`"""
    status: str
    """Status of the kernel handed over; `reference_kept`; or `bad_input`, `infra_error` where no run could be made."""
    reason: str
    kernel_ms: float | None = None
    eager_ms: float | None = None
    compile_ms: float | None = None
    eager_fp32_ms: float | None = None
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    pairs: int | None = None
    error: float | None = None
    budget: float | None = None
    bound_ms: float | None = None
    floor_ms: float | None = None
    triton_share: float | None = None
    attempts: int = 0
    seconds: float = 0.0
    usage: Usage = Usage()
    run: str = ""


class Results(Value):
    """The rows of a suite, with what is needed to read them and to measure them again."""

    name: str
    version: str
    started: str
    """Time of the start, UTC, ISO 8601."""
    model: str
    precision: Precision
    target: str
    settings: dict[str, Any]
    """The knobs of every run, as JSON data."""
    environment: Environment | None = None
    statistic: str = STATISTIC
    rows: tuple[Row, ...] = ()


THRESHOLDS = (1.0, 1.1, 1.2, 1.5, 2.0)
"""Values of p for which a summary tells fast_p."""


class Summary(Value):
    """Statistics over all rows of a suite. It has no mean of ratios: a few outliers decide such a mean."""

    problems: int
    usable: int
    """Rows that ended with a kernel that may replace the reference."""
    timed: int
    """Rows whose kernel was timed."""
    geometric_mean: float | None = None
    """Geometric mean of the ratios of timed kernels, slower ones included."""
    median: float | None = None
    """Median of the same ratios."""
    geometric_mean_as_used: float | None = None
    """Geometric mean over all problems, where the reference is kept (1.0) unless the kernel was found faster."""
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
        geometric_mean=statistics.geometric_mean(ratios),
        median=statistics.median(ratios),
        geometric_mean_as_used=statistics.geometric_mean(used),
        fast={f"{p:g}": sum(ratio > p for ratio in ratios) / len(rows) for p in THRESHOLDS},
    )


def row_of(run: "Run") -> Row:
    """The row of a finished run."""
    task: KernelTask = run.state["task"]
    baseline: Baseline = run.state["baseline"]
    evaluation = run.evaluation
    return Row(
        name=task.name,
        task=task.digest,
        status=run.status,
        reason=evaluation.reason if evaluation is not None else run.verdict.splitlines()[0],
        eager_fp32_ms=baseline.eager_fp32_ms,
        floor_ms=baseline.floor_ms or None,
        attempts=len(run.attempts),
        seconds=round(run.seconds, 1),
        usage=run.usage,
        run=run.id,
    ).model_copy(update={} if evaluation is None else _figures(evaluation, baseline))


def _figures(evaluation: Evaluation, baseline: Baseline) -> dict[str, Any]:
    timing, bound = evaluation.timing, evaluation.bound
    checks = [check for check in evaluation.checks if check.budget > 0]
    worst = max(checks, key=lambda check: check.error / check.budget, default=None)
    figures: dict[str, Any] = {"triton_share": evaluation.triton_share}
    if worst is not None:
        figures |= {"error": worst.error, "budget": worst.budget}
    if bound is not None:
        figures |= {"bound_ms": bound.milliseconds}
    if timing is not None:
        figures |= {
            "kernel_ms": timing.candidate_ms,
            "eager_ms": timing.eager_ms,
            "compile_ms": timing.compile_ms,
            "eager_fp32_ms": timing.eager_fp32_ms or baseline.eager_fp32_ms,
            "ratio": timing.ratio,
            "ratio_low": timing.ratio_low,
            "ratio_high": timing.ratio_high,
            "pairs": timing.pairs,
        }
    return figures
