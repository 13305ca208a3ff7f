"""Judge one kernel in several fresh evaluators, and tell how far their verdicts and ratios lie apart."""

import math
import statistics
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from egg_graph.bench.provenance import Provenance, current_provenance
from egg_graph.bench.writing import markdown_table, write_results
from egg_graph.context import Device
from egg_graph.evaluator import LocalEvaluator
from egg_graph.schema import Candidate, Evaluation, KernelTask, Value


class SpreadVerdict(Value):
    """The verdict of one fresh evaluator. Times are in milliseconds; all figures are None where nothing was timed."""

    status: str
    reason: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    pairs: int | None = None
    candidate_ms: float | None = None
    baseline_ms: float | None = None
    seconds: float = 0.0


class SpreadResults(Value):
    """All verdicts on one kernel."""

    terms: Provenance
    reference: str
    candidate: str
    precision: str
    count: int
    verdicts: tuple[SpreadVerdict, ...] = ()

    @property
    def ratios(self) -> tuple[float, ...]:
        """Ratios of the timed verdicts."""
        return tuple(verdict.ratio for verdict in self.verdicts if verdict.ratio is not None)

    @property
    def geometric_deviation(self) -> float | None:
        """Geometric standard deviation: 1.01 is one percent. None for fewer than two ratios."""
        return math.exp(statistics.stdev(map(math.log, self.ratios))) if len(self.ratios) > 1 else None

    @property
    def contradiction(self) -> bool:
        """Whether one verdict said `faster` and another one `slower`."""
        return {"faster", "slower"} <= {verdict.status for verdict in self.verdicts}

    @property
    def apart(self) -> int:
        """Pairs of verdicts whose intervals have nothing in common."""
        spans = [(v.low, v.high) for v in self.verdicts if v.low is not None and v.high is not None]
        return sum(a[1] < b[0] or b[1] < a[0] for n, a in enumerate(spans) for b in spans[:n])


def run_spread(
    task: KernelTask,
    candidate: Candidate,
    name: str,
    out: Path | None = None,
    *,
    count: int = 10,
    device: Device = "auto",
    together: int = 1,
    on_verdict: Callable[[SpreadVerdict], None] | None = None,
) -> SpreadResults:
    """Judge one kernel in `count` fresh evaluators, each with a secret seed of its own.

    Args:
        task: the task that the kernel is judged on.
        candidate: the kernel.
        name: name of its file.
        out: results file, rewritten after every verdict.
        count: number of evaluators.
        device: where to judge; without a GPU nothing is timed, and only the verdicts are compared.
        together: evaluators at a time; they measure in turns.
        on_verdict: called after each verdict.
    """
    results = SpreadResults(
        terms=current_provenance(), reference=task.name, candidate=name, precision=task.precision, count=count
    )

    def fresh(number: int) -> Evaluation:
        with LocalEvaluator(device=device) as own:
            return own.evaluate(task, candidate)

    with ThreadPoolExecutor(together) as threads:
        for evaluation in threads.map(fresh, range(count)):
            terms = results.terms.model_copy(update={"environment": evaluation.environment})
            verdict = _verdict(evaluation)
            results = results.model_copy(update={"verdicts": (*results.verdicts, verdict), "terms": terms})
            if on_verdict is not None:
                on_verdict(verdict)
            if out is not None:
                write_results(out, results, spread_page(results), summary=_summary(results))
    return results


def spread_page(results: SpreadResults) -> str:
    """The verdicts as a Markdown page."""
    rows = [
        (str(number), verdict.status, _interval(verdict), _ms(verdict.candidate_ms), _ms(verdict.baseline_ms))
        for number, verdict in enumerate(results.verdicts, start=1)
    ]
    lines = [f"# spread of {results.candidate} for {results.reference}", ""]
    lines += [f"{results.terms.line} Precision {results.precision}; every line a fresh evaluator.", ""]
    lines += [describe_spread(results), ""]
    header = ("evaluator", "verdict", "ratio (95 % interval)", "kernel [ms]", "baseline [ms]")
    return "\n".join([*lines, *markdown_table(header, rows)]) + "\n"


def describe_spread(results: SpreadResults) -> str:
    """The spread in one sentence."""
    ratios = results.ratios
    if not ratios:
        statuses = sorted({verdict.status for verdict in results.verdicts})
        return f"Nothing was timed; {len(results.verdicts)} verdicts: {', '.join(statuses)}."
    deviation = results.geometric_deviation
    spread = "" if deviation is None else f", geometric standard deviation {deviation:.4f}"
    against = "`faster` and `slower` were both said" if results.contradiction else "no verdict contradicts another"
    mean = statistics.geometric_mean(ratios)
    return (
        f"Ratios from {min(ratios):.4f} to {max(ratios):.4f} (geometric mean {mean:.4f}{spread}); "
        f"{against}; {results.apart} pairs of intervals have nothing in common."
    )


def _summary(results: SpreadResults) -> dict[str, object]:
    ratios = results.ratios
    return {
        "lowest": min(ratios, default=None),
        "highest": max(ratios, default=None),
        "geometric_mean": statistics.geometric_mean(ratios) if ratios else None,
        "geometric_deviation": results.geometric_deviation,
        "contradiction": results.contradiction,
        "apart": results.apart,
    }


def _verdict(evaluation: Evaluation) -> SpreadVerdict:
    timing = evaluation.timing
    figures: dict[str, Any] = (
        {}
        if timing is None
        else {
            "ratio": timing.ratio,
            "low": timing.ratio_low,
            "high": timing.ratio_high,
            "pairs": timing.pairs,
            "candidate_ms": timing.candidate_ms,
            "baseline_ms": timing.eager_ms if timing.baseline == "eager" else timing.compile_ms,
        }
    )
    return SpreadVerdict(status=evaluation.status, reason=evaluation.reason, seconds=evaluation.seconds, **figures)


def _interval(verdict: SpreadVerdict) -> str:
    return "-" if verdict.ratio is None else f"{verdict.ratio:.4f} ({verdict.low:.4f} to {verdict.high:.4f})"


def _ms(milliseconds: float | None) -> str:
    return "-" if milliseconds is None else f"{milliseconds:.4g}"
