"""The first kernels (seeds) that a model wrote, of all runs of a folder, whether they have ended or not.

Each was judged once, in the run itself: no second measurement in fresh processes, no sanitizer.
"""

from pathlib import Path
from statistics import geometric_mean, median

from egg_graph.bench.writing import markdown_table, write_results
from egg_graph.model_requests import read_requests
from egg_graph.runs.history import read_lines
from egg_graph.schema import USABLE, CallEntry, Environment, Evaluation, Usage, Value
from tests.lab.kept_evaluations import first_evaluation, highest_ratio
from tests.lab.model_runs import ModelRuns, PlannedRun, Terms


class SeedRow(Value):
    """One problem. A ratio is the better of eager and torch.compile over the kernel, at equal precision."""

    problem: str
    status: str
    """Verdict on the model's first kernel."""
    reason: str
    ratio: float | None
    low: float | None
    high: float | None
    contender_status: str
    """Verdict on the embedded expert's first kernel; empty where it has none."""
    contender: float | None
    """Its ratio."""
    expert: float | None
    """Highest ratio of a right kernel in the embedded expert's own run, sweeps included, as far as that came."""
    usage: Usage
    """What the model's answer took."""

    @property
    def score(self) -> float:
        """The ratio with which the problem counts: 1.0 where the kernel is not right."""
        return self.ratio if self.status in USABLE and self.ratio else 1.0


class SeedResults(Value):
    """All problems whose first kernel was judged."""

    terms: Terms
    environment: Environment | None = None
    rows: tuple[SeedRow, ...] = ()
    without: tuple[str, ...] = ()
    """Problems for which the model's first kernel was not written or not judged."""


def read_seeds(runs: ModelRuns) -> SeedResults:
    """Make the rows from what the runs have kept so far."""
    named = {problem: Path(path).name for problem, path in runs.terms.references.items()}
    rows, without, environment = [], [], None
    for problem in runs.terms.references:
        folder = runs.run_folder(PlannedRun(problem, "model"))
        seed = None if folder is None else _first_of_the_team(folder)
        if folder is None or seed is None:
            without.append(problem)
            continue
        contender = first_evaluation(
            folder, [e for e in read_lines(folder) if isinstance(e, CallEntry) and not e.attempt]
        )
        environment = environment or seed.environment
        rows.append(
            _row(problem, seed, contender, highest_ratio(runs.run_folder(PlannedRun(problem, "expert"))), folder)
        )
    terms = runs.terms.model_copy(update={"references": named})
    return SeedResults(terms=terms, environment=environment, rows=tuple(rows), without=tuple(without))


def _row(problem: str, seed: Evaluation, contender: Evaluation | None, expert: float | None, folder: Path) -> SeedRow:
    timing = seed.timing
    asked = [request for request in read_requests(folder) if request.role == "coder"]
    return SeedRow(
        problem=problem,
        status=seed.status,
        reason=seed.reason,
        ratio=None if timing is None else timing.ratio,
        low=None if timing is None else timing.ratio_low,
        high=None if timing is None else timing.ratio_high,
        contender_status="" if contender is None else contender.status,
        contender=None if contender is None or contender.timing is None else contender.timing.ratio,
        expert=expert,
        usage=asked[0].usage if asked else Usage(),
    )


def _first_of_the_team(folder: Path) -> Evaluation | None:
    """The evaluation of the first kernel that the model wrote; None where there is none yet."""
    calls = [line for line in read_lines(folder) if isinstance(line, CallEntry) and line.attempt]
    written = next((n for n, call in enumerate(calls) if call.call == "coder" and not call.status), None)
    return None if written is None else first_evaluation(folder, calls[written:])


def summarize_seeds(rows: tuple[SeedRow, ...]) -> dict[str, float | int]:
    """Counts, geometric means and medians."""
    return {
        "problems": len(rows),
        "right": sum(row.status in USABLE for row in rows),
        "faster": sum(row.status == "faster" for row in rows),
        "geometric_mean": geometric_mean(row.score for row in rows),
        "contender_geometric_mean": geometric_mean(max(1.0, row.contender or 1.0) for row in rows),
        "expert_geometric_mean": geometric_mean(max(1.0, row.expert or 1.0) for row in rows),
        "median_input_tokens": median(row.usage.input_tokens for row in rows),
        "median_output_tokens": median(row.usage.output_tokens for row in rows),
    }


def seeds_page(results: SeedResults) -> str:
    """The page of the results."""
    rows = results.rows
    told = summarize_seeds(rows)
    lines = [
        "# First kernels of a model",
        "",
        results.terms.line(results.environment),
        "",
        f"- The first kernel of {told['right']} of {told['problems']} problems is right, of {told['faster']} faster "
        "than PyTorch with confidence. No repair, no tuning, one call of the model each.",
        f"- Over PyTorch, geometric mean: **{told['geometric_mean']:.3f}** (one that is not right counts as 1.0); the "
        f"embedded expert's first kernels {told['contender_geometric_mean']:.3f}, its best ones with its sweeps "
        f"{told['expert_geometric_mean']:.3f} (none, or a slower one, counts as 1.0, for its run would keep PyTorch).",
        f"- A call takes {told['median_input_tokens']:,.0f} tokens in and {told['median_output_tokens']:,.0f} out in "
        "the median, estimated from the texts.",
        "- Each was judged once, beside others on the same GPU: not measured again in fresh processes, not under "
        "compute-sanitizer.",
        *([f"- Not written or not judged: {', '.join(results.without)}."] if results.without else []),
        "",
        *_table(rows),
    ]
    return "\n".join(lines) + "\n"


def _table(rows: tuple[SeedRow, ...]) -> list[str]:
    heads = [
        "problem",
        "first kernel",
        "ratio",
        "interval",
        "attempt 0",
        "its ratio",
        "expert's best",
        "tokens in",
        "out",
    ]
    return markdown_table(
        heads,
        [
            [
                row.problem,
                row.status,
                ratio_or_dash(row.ratio),
                "-" if row.low is None or row.high is None else f"{row.low:.3f} to {row.high:.3f}",
                row.contender_status or "none",
                ratio_or_dash(row.contender),
                ratio_or_dash(row.expert),
                f"{row.usage.input_tokens:,}",
                f"{row.usage.output_tokens:,}",
            ]
            for row in rows
        ],
    )


def ratio_or_dash(ratio: float | None) -> str:
    """A ratio in a table."""
    return "-" if ratio is None else f"{ratio:.3f}"


def write_seeds(out: Path, results: SeedResults) -> None:
    """Write the results and their page.

    Raises:
        BadInput: if they cannot be written.
    """
    write_results(out, results, seeds_page(results), summary=summarize_seeds(results.rows))
