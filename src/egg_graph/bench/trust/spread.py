"""How far verdicts on one kernel lie apart: the same kernel, judged by one fresh evaluator after the other."""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import fmean
from typing import Literal

from egg_graph.bench.statistics import geometric_mean
from egg_graph.bench.trust.provenance import Terms, terms_now
from egg_graph.bench.writing import table, write_results
from egg_graph.evaluator import LocalEvaluator
from egg_graph.schema import Candidate, Evaluation, KernelTask, Value


class Ratio(Value):
    """One fresh evaluator's verdict."""

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

    terms: Terms
    reference: str
    candidate: str
    precision: str
    count: int
    verdicts: tuple[Ratio, ...] = ()

    @property
    def ratios(self) -> tuple[float, ...]:
        return tuple(verdict.ratio for verdict in self.verdicts if verdict.ratio is not None)

    @property
    def geometric_deviation(self) -> float | None:
        """exp of the standard deviation of the logarithms: 1.01 is one percent. None for fewer than two."""
        logs = [math.log(ratio) for ratio in self.ratios]
        if len(logs) < 2:
            return None
        centre = fmean(logs)
        return math.exp(math.sqrt(sum((log - centre) ** 2 for log in logs) / (len(logs) - 1)))

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
    device: Literal["auto", "gpu", "none"] = "auto",
    together: int = 1,
    on_verdict: Callable[[Ratio], None] | None = None,
) -> SpreadResults:
    """Judge one kernel in `count` fresh evaluators, with secret seeds of their own.

    Args:
        task: what it is to replace.
        candidate: the kernel.
        name: of its file.
        out: results file, rewritten after every verdict.
        count: evaluators.
        device: ladder; without a GPU nothing is timed, and the verdicts alone are compared.
        together: evaluators at a time; they measure in turns.
        on_verdict: called after each.
    """
    results = SpreadResults(
        terms=terms_now(), reference=task.name, candidate=name, precision=task.precision, count=count
    )

    def fresh(number: int) -> Evaluation:
        with LocalEvaluator(device=device) as own:
            return own.evaluate(task, candidate)

    with ThreadPoolExecutor(together) as threads:
        for evaluation in threads.map(fresh, range(count)):
            terms = results.terms.model_copy(update={"environment": evaluation.environment})
            verdict = _ratio(evaluation)
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
    lines += [told(results), ""]
    header = ("evaluator", "verdict", "ratio (95 % interval)", "kernel [ms]", "baseline [ms]")
    return "\n".join([*lines, *table(header, rows)]) + "\n"


def told(results: SpreadResults) -> str:
    """The spread in words."""
    ratios = results.ratios
    if not ratios:
        statuses = sorted({verdict.status for verdict in results.verdicts})
        return f"Nothing was timed; {len(results.verdicts)} verdicts: {', '.join(statuses)}."
    deviation = results.geometric_deviation
    spread = "" if deviation is None else f", geometric standard deviation {deviation:.4f}"
    against = "`faster` and `slower` were both said" if results.contradiction else "no verdict contradicts another"
    return (
        f"Ratios from {min(ratios):.4f} to {max(ratios):.4f} (geometric mean {geometric_mean(ratios):.4f}{spread}); "
        f"{against}; {results.apart} pairs of intervals have nothing in common."
    )


def _summary(results: SpreadResults) -> dict[str, object]:
    ratios = results.ratios
    return {
        "lowest": min(ratios, default=None),
        "highest": max(ratios, default=None),
        "geometric_mean": geometric_mean(ratios) if ratios else None,
        "geometric_deviation": results.geometric_deviation,
        "contradiction": results.contradiction,
        "apart": results.apart,
    }


def _ratio(evaluation: Evaluation) -> Ratio:
    timing = evaluation.timing
    verdict = Ratio(status=evaluation.status, reason=evaluation.reason, seconds=evaluation.seconds)
    if timing is None:
        return verdict
    return Ratio(
        status=verdict.status,
        reason=verdict.reason,
        seconds=verdict.seconds,
        ratio=timing.ratio,
        low=timing.ratio_low,
        high=timing.ratio_high,
        pairs=timing.pairs,
        candidate_ms=timing.candidate_ms,
        baseline_ms=timing.eager_ms if timing.baseline == "eager" else timing.compile_ms,
    )


def _interval(verdict: Ratio) -> str:
    return "-" if verdict.ratio is None else f"{verdict.ratio:.4f} ({verdict.low:.4f} to {verdict.high:.4f})"


def _ms(milliseconds: float | None) -> str:
    return "-" if milliseconds is None else f"{milliseconds:.4g}"
