"""How far the runs of a model came: the best kernel at the end of each stage, of runs that ended or not.

Each kernel was judged once, in the run itself: no second measurement in fresh processes, no sanitizer.
"""

from collections.abc import Sequence
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any, get_args

from egg_graph.bench.writing import markdown_table, write_results
from egg_graph.model_requests import read_requests
from egg_graph.schema import USABLE, CallEntry, Environment, StageName, Usage, Value
from tests.lab.kept_evaluations import first_evaluation, highest_ratio, judged_calls, kept_evaluation
from tests.lab.model_runs import ModelRuns, PlannedRun, Terms
from tests.lab.model_runs_calls import Bought, bought_by_calls, calls_section
from tests.lab.model_runs_course import PartSoFar, parts_section, parts_so_far
from tests.lab.model_seeds import ratio_or_dash

STAGES: tuple[StageName, ...] = get_args(StageName)


class SoFarRow(Value):
    """One problem. A ratio is the better of eager and torch.compile over the kernel, at equal precision."""

    problem: str
    ended: bool
    contender: float | None
    """Ratio of attempt 0, the embedded expert's first kernel; None where it has none, or it is not right."""
    first_try: str
    """Verdict on the first kernel that the model wrote."""
    kernels: int
    """Kernels of the model, and of sweeps of them, that were judged."""
    right: int
    """Those of them that were right."""
    reached: tuple[StageName, ...]
    """Stages in which a kernel was judged."""
    after: dict[StageName, float | None]
    """Highest ratio of a right kernel at the end of each stage, attempt 0 included; None for a stage that was not
    reached, or has none."""
    expert: float | None
    """Highest ratio of a right kernel in the embedded expert's own run, sweeps included, as far as that came."""
    usage: Usage
    """What all of the model's answers took."""
    course: tuple[Bought, ...] = ()
    """What the run had before its first answer and after each one; older files do not tell it."""

    @property
    def best(self) -> float:
        """The highest ratio, at least 1.0: PyTorch would be kept."""
        return max([1.0, *(ratio for ratio in self.after.values() if ratio is not None)])

    @property
    def expert_best(self) -> float:
        """That of the embedded expert's own run."""
        return max(1.0, self.expert or 1.0)


class SoFarResults(Value):
    """All problems at which the model has written a kernel that was judged."""

    terms: Terms
    environment: Environment | None = None
    rows: tuple[SoFarRow, ...] = ()
    parts: tuple[PartSoFar, ...] = ()
    """Runs without a part, where there are any."""


def read_so_far(runs: ModelRuns) -> SoFarResults:
    """Make the rows from what the runs have kept so far."""
    named = {problem: Path(path).name for problem, path in runs.terms.references.items()}
    environment, rows = None, []
    for problem in runs.terms.references:
        planned = PlannedRun(problem, "model")
        folder = runs.run_folder(planned)
        calls = [] if folder is None else judged_calls(folder)
        if folder is not None and any(call.attempt for call in calls):
            rows.append(_row(runs, planned, folder, calls))
            first = first_evaluation(folder, calls)
            environment = environment or (None if first is None else first.environment)
    terms = runs.terms.model_copy(update={"references": named})
    return SoFarResults(terms=terms, environment=environment, rows=tuple(rows), parts=parts_so_far(runs))


def _row(runs: ModelRuns, planned: PlannedRun, folder: Path, calls: list[CallEntry]) -> SoFarRow:
    written = [call for call in calls if call.attempt]
    contender, best = _best_ratios(folder, calls)
    reached = tuple(stage for stage in STAGES if any(call.stage == stage for call in written))
    after: dict[StageName, float | None] = {}
    highest = contender
    for stage in STAGES:
        highest = max((ratio for ratio in (highest, best.get(stage)) if ratio is not None), default=None)
        after[stage] = highest if stage in reached else None
    return SoFarRow(
        problem=planned.problem,
        ended=runs.ended(planned),
        contender=contender,
        first_try=written[0].status,
        kernels=len(written),
        right=sum(call.status in USABLE for call in written),
        reached=reached,
        after=after,
        expert=highest_ratio(runs.run_folder(PlannedRun(planned.problem, "expert"))),
        usage=sum((request.usage for request in read_requests(folder)), Usage()),
        course=bought_by_calls(folder),
    )


def _best_ratios(folder: Path, calls: list[CallEntry]) -> tuple[float | None, dict[StageName, float]]:
    """The ratio of attempt 0, if it is right, and the highest ratio of a right kernel of each stage."""
    contender, best = None, dict[StageName, float]()
    for call in calls:
        kept = kept_evaluation(folder, call.candidate) if call.status in USABLE else None
        if kept is None or kept.timing is None:
            continue
        if not call.attempt:
            contender = kept.timing.ratio
        elif call.stage is not None:
            best[call.stage] = max(best.get(call.stage, 0.0), kept.timing.ratio)
    return contender, best


def summarize_so_far(rows: Sequence[SoFarRow]) -> dict[str, Any]:
    """Counts, geometric means and medians."""

    def through(number: int) -> float:
        """Geometric mean at the end of a stage; a run that did not reach it counts with what it had before."""
        return geometric_mean(max([1.0, *(row.after[stage] or 1.0 for stage in STAGES[:number])]) for row in rows)

    return {
        "problems": len(rows),
        "ended": sum(row.ended for row in rows),
        "right": sum(row.right > 0 for row in rows),
        "right_at_the_first_try": sum(row.first_try in USABLE for row in rows),
        "contender_geometric_mean": geometric_mean(max(1.0, row.contender or 1.0) for row in rows),
        "expert_geometric_mean": geometric_mean(row.expert_best for row in rows),
        "geometric_mean": geometric_mean(row.best for row in rows),
        "gain_over_the_expert": geometric_mean(row.best / row.expert_best for row in rows),
        "median": median(row.best for row in rows),
        "after": {stage: through(number) for number, stage in enumerate(STAGES, 1)},
        "reached": {stage: sum(stage in row.reached for row in rows) for stage in STAGES},
        "median_calls": median(row.usage.calls for row in rows),
        "median_input_tokens": median(row.usage.input_tokens for row in rows),
        "median_output_tokens": median(row.usage.output_tokens for row in rows),
    }


def so_far_page(results: SoFarResults) -> str:
    """The page of the results."""
    rows = results.rows
    told = summarize_so_far(rows)
    stages = "; ".join(f"{stage} {told['after'][stage]:.3f} ({told['reached'][stage]})" for stage in STAGES)
    lines = [
        "# How far the runs of a model came",
        "",
        results.terms.line(results.environment),
        "",
        f"- At {told['right']} of {told['problems']} problems the model wrote a right kernel, at "
        f"{told['right_at_the_first_try']} at the first try. {told['ended']} runs have ended.",
        f"- The best kernel so far over PyTorch, geometric mean and median: {told['geometric_mean']:.3f}, "
        f"{told['median']:.3f}; the embedded expert's best {told['expert_geometric_mean']:.3f}, its first kernels "
        f"{told['contender_geometric_mean']:.3f}; gain over the expert {told['gain_over_the_expert']:.3f} (none, or a "
        "slower one, counts as 1.0 everywhere).",
        f"- At the end of each stage (and runs that judged a kernel in it): {stages}.",
        f"- Median per problem: {told['median_calls']:g} calls, {told['median_input_tokens']:,.0f} tokens in, "
        f"{told['median_output_tokens']:,.0f} out, estimated from the texts.",
        "- Each kernel was judged once, beside others on the same GPU: not measured again in fresh processes, not "
        "under compute-sanitizer.",
        "",
        *_table(rows),
        *calls_section([row.course for row in rows]),
        *parts_section(results.parts),
    ]
    return "\n".join(lines) + "\n"


def _table(rows: Sequence[SoFarRow]) -> list[str]:
    heads = [
        "problem",
        "ended",
        "attempt 0",
        "first try",
        "right",
        *STAGES,
        "expert's best",
        "calls",
        "tokens in",
        "out",
    ]
    table = [
        [
            row.problem,
            "yes" if row.ended else "no",
            ratio_or_dash(row.contender),
            row.first_try,
            f"{row.right} of {row.kernels}",
            *(ratio_or_dash(row.after[stage]) for stage in STAGES),
            ratio_or_dash(row.expert),
            str(row.usage.calls),
            f"{row.usage.input_tokens:,}",
            f"{row.usage.output_tokens:,}",
        ]
        for row in rows
    ]
    return markdown_table(heads, table)


def write_so_far(out: Path, results: SoFarResults) -> None:
    """Write the results and their page.

    Raises:
        BadInput: if they cannot be written.
    """
    write_results(out, results, so_far_page(results), summary=summarize_so_far(results.rows))
