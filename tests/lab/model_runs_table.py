"""What the runs of `tests.lab.model_runs` came to: a row a problem, from the runs' own records alone."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any, NamedTuple, get_args

from egg_graph.knowledge import Price
from egg_graph.knowledge.prices import load_prices
from egg_graph.model_requests import read_requests
from egg_graph.report import SavedRun, read_run
from egg_graph.runs.replay import replay_run
from egg_graph.schema import (
    ROLES,
    USABLE,
    Attempt,
    BadInput,
    Environment,
    Evaluation,
    Role,
    StageName,
    Timing,
    Usage,
    Value,
)
from tests.lab.kept_evaluations import highest_ratio
from tests.lab.model_runs import ModelRuns, PlannedRun, Terms
from tests.lab.model_runs_parts import PARTS, without_part

STAGES: tuple[StageName, ...] = get_args(StageName)
NOT_MEASURED = "not measured"
NOT_ENDED = "not ended"


class RoleCost(Value):
    """What one role asked."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    dollars: float | None = None
    """At the price that was named; None where none was."""


class ModelRunRow(Value):
    """One problem. A ratio is the better of eager and torch.compile over the kernel, at equal precision."""

    problem: str
    run: str
    left_out: str = ""
    """The part of `egg_graph.bench.ablation` that the run did without; empty for none."""
    status: str
    """Status of the kernel that was handed over, or `reference_kept`."""
    right: bool
    """Whether the run ended with a right kernel, whoever wrote it."""
    team_right: bool = False
    """Whether a kernel that the team wrote was right."""
    first_try: str = ""
    """Status of the team's first kernel; empty where it wrote none."""
    drafts: int = 0
    """Seeds and optimizations that the team wrote."""
    right_at_once: int = 0
    """Those of them that were right without a repair."""
    repairs: int = 0
    eager_ms: float | None = None
    compile_ms: float | None = None
    contender: float | None = None
    """Ratio of attempt 0, the embedded expert's first kernel; None where it has none, or nothing was timed."""
    after: dict[StageName, float | None] = {}
    """Ratio of the best kernel at the end of each stage."""
    without: dict[str, float] = {}
    """Best ratio, at least 1.0, of the kernels in which a part had no hand, by part; "" is the whole run."""
    outcomes: dict[StageName, str] = {}
    """How each stage ended."""
    ratio: float | None = None
    """Ratio of the kernel that was handed over, as the finalist's evaluation measured it."""
    low: float | None = None
    high: float | None = None
    expert_status: str = ""
    """How the embedded expert's own run ended, or `not ended`; empty where it had none."""
    expert_ratio: float | None = None
    """Ratio of the kernel that it handed over; of the best one that was judged where it has not ended."""
    costs: dict[Role, RoleCost] = {}
    replay: str = ""
    """`agrees`, or what differs; empty where it was not replayed."""

    @property
    def score(self) -> float | None:
        """The ratio with which the problem counts: 1.0 where the reference is kept; None where nothing was timed."""
        return _score(self.status, self.ratio, self.timed)

    @property
    def expert_score(self) -> float | None:
        """The same of the embedded expert's own run, as far as it came."""
        if self.expert_status == NOT_ENDED and self.timed:
            return max(1.0, self.expert_ratio or 1.0)
        return _score(self.expert_status, self.expert_ratio, self.timed) if self.expert_status else None

    @property
    def timed(self) -> bool:
        """Whether anything was timed."""
        return self.eager_ms is not None

    @property
    def gain(self) -> float | None:
        """How many times as fast as the embedded expert's kernel the run's is."""
        return self.score / self.expert_score if self.score and self.expert_score else None

    @property
    def cost(self) -> RoleCost:
        """That of all roles together."""
        return sum_costs(self.costs.values())


class ModelRunResults(Value):
    """All problems, and the terms of their runs."""

    terms: Terms
    environment: Environment | None = None
    """The machine that judged."""
    priced_as: str = ""
    """The model at whose price the tokens are told in money; empty for none."""
    price: Price | None = None
    unfinished: tuple[str, ...] = ()
    """Runs that have not ended, by problem and player."""
    rows: tuple[ModelRunRow, ...] = ()
    """Whole runs."""
    rows_without: tuple[ModelRunRow, ...] = ()
    """Runs that did without a part."""


class _Expert(NamedTuple):
    """How the embedded expert's own run ended, or how far it came."""

    status: str = ""
    ratio: float | None = None


def read_model_runs(
    runs: ModelRuns,
    *,
    priced_as: str = "",
    replay: bool = False,
) -> ModelRunResults:
    """Make the rows of all runs that ended.

    Args:
        priced_as: a model of `prices.toml`, at whose price the tokens are told in money.
        replay: repeat every run from its folder, and see whether it ends as it did.

    Raises:
        BadInput: if that model has no price.
    """
    price = next((price for price in load_prices() if price.model == priced_as), None)
    if priced_as and price is None:
        raise BadInput(f"the price of {priced_as!r} is not known: name a model of prompts/prices.toml")
    named = {problem: Path(path).name for problem, path in runs.terms.references.items()}
    terms = runs.terms.model_copy(update={"references": named})
    results = ModelRunResults(terms=terms, priced_as=priced_as, price=price)
    rows: list[ModelRunRow] = []
    environment = None
    for planned in runs.planned_runs:
        folder = runs.run_folder(planned)
        if folder is None or planned.player == "expert" or not runs.ended(planned):
            continue
        saved = read_run(folder)
        environment = environment or saved.baseline.environment
        row = _row(planned, saved, _costs(folder, price), _expert(runs, planned.problem))
        rows.append(row.model_copy(update={"replay": _replayed(folder)}) if replay else row)
    return results.model_copy(
        update={
            "rows": tuple(row for row in rows if not row.left_out),
            "rows_without": tuple(row for row in rows if row.left_out),
            "environment": environment,
            "unfinished": tuple(planned.key for planned in runs.planned_runs if not runs.ended(planned)),
        }
    )


def _row(planned: PlannedRun, saved: SavedRun, costs: dict[Role, RoleCost], expert: _Expert) -> ModelRunRow:
    team = [a for a in saved.attempts if a.number > 0 and a.candidate.mode != "tune"]
    drafts = [a for a in team if a.candidate.mode in ("seed", "optimize")]
    timing = _timing(saved.evaluation)
    return ModelRunRow(
        problem=planned.problem,
        run=saved.id,
        left_out=planned.without,
        status=saved.status,
        right=saved.status in USABLE or any(a.evaluation.usable for a in saved.attempts),
        team_right=any(a.evaluation.usable for a in team),
        first_try=team[0].evaluation.status if team else "",
        drafts=len(drafts),
        right_at_once=sum(a.evaluation.usable for a in drafts),
        repairs=sum(a.candidate.mode == "repair" for a in team),
        eager_ms=saved.baseline.eager_ms,
        compile_ms=saved.baseline.compile_ms,
        contender=next((_ratio(a) for a in saved.attempts if a.number == 0 and a.evaluation.usable), None),
        after={stage: _ratio(_best(saved.attempts, stage)) for stage in STAGES},
        without={part: without_part(saved.attempts, part) for part in ("", *PARTS)},
        outcomes={summary.stage: summary.outcome for summary in saved.summaries},
        ratio=None if timing is None else timing.ratio,
        low=None if timing is None else timing.ratio_low,
        high=None if timing is None else timing.ratio_high,
        expert_status=expert.status,
        expert_ratio=expert.ratio,
        costs=costs,
    )


def _best(attempts: Sequence[Attempt], stage: StageName) -> Attempt | None:
    """The best kernel at the end of a stage; the contender belongs to none, and comes first."""
    until = STAGES.index(stage)
    found = [a for a in attempts if a.improved and (a.number == 0 or STAGES.index(a.candidate.stage) <= until)]
    return found[-1] if found else None


def _timing(evaluation: Evaluation | None) -> Timing | None:
    return None if evaluation is None else evaluation.timing


def _ratio(judged: Attempt | SavedRun | None) -> float | None:
    """The measured ratio of an attempt, or of the kernel that a run handed over; None where nothing was timed."""
    timing = None if judged is None else _timing(judged.evaluation)
    return None if timing is None else timing.ratio


def _expert(runs: ModelRuns, problem: str) -> _Expert:
    """How the embedded expert's own run ended, or how far it came."""
    planned = PlannedRun(problem, "expert")
    folder = runs.run_folder(planned)
    if folder is None:
        return _Expert()
    if not runs.ended(planned):
        return _Expert(NOT_ENDED, highest_ratio(folder))
    saved = read_run(folder)
    return _Expert(saved.status, _ratio(saved))


def _costs(folder: Path, price: Price | None) -> dict[Role, RoleCost]:
    requests = read_requests(folder)
    found: dict[Role, RoleCost] = {}
    for role in ROLES:
        usage = sum((one.usage for one in requests if one.role == role), Usage())
        found[role] = RoleCost(
            calls=usage.calls,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            dollars=None if price is None else price.of(usage),
        )
    return found


def _replayed(folder: Path) -> str:
    try:
        replay = replay_run(folder)
    except BadInput as error:
        return str(error)
    return f"differs: {', '.join(replay.differs)}" if replay.differs else "agrees"


def sum_costs(costs: Iterable[RoleCost]) -> RoleCost:
    costs = list(costs)
    dollars = [cost.dollars for cost in costs if cost.dollars is not None]
    return RoleCost(
        calls=sum(cost.calls for cost in costs),
        input_tokens=sum(cost.input_tokens for cost in costs),
        output_tokens=sum(cost.output_tokens for cost in costs),
        dollars=sum(dollars) if dollars else None,
    )


def _score(status: str, ratio: float | None, timed: bool) -> float | None:
    if not timed:
        return None
    return ratio if status in USABLE and ratio is not None else 1.0


def summarize(rows: Sequence[ModelRunRow]) -> dict[str, Any]:
    """Medians and geometric means of all rows; None where nothing was measured."""

    def mean(ratios: Iterable[float | None]) -> float | None:
        known = [ratio for ratio in ratios if ratio is not None]
        return geometric_mean(known) if known else None

    def middle(ratios: Iterable[float | None]) -> float | None:
        known = [ratio for ratio in ratios if ratio is not None]
        return median(known) if known else None

    costs = [row.cost for row in rows]
    return {
        "problems": len(rows),
        "right": sum(row.right for row in rows),
        "team_right": sum(row.team_right for row in rows),
        "right_at_the_first_try": sum(row.first_try in USABLE for row in rows),
        "handed_over": sum(row.status in USABLE for row in rows),
        "geometric_mean": mean(row.score for row in rows),
        "median": middle(row.score for row in rows),
        "expert_median": middle(row.expert_score for row in rows),
        "expert_geometric_mean": mean(row.expert_score for row in rows),
        "gain_over_the_expert": mean(row.gain for row in rows),
        "contender_geometric_mean": mean(row.contender for row in rows),
        "after": {stage: mean(row.after[stage] for row in rows) for stage in STAGES},
        "median_calls": median(cost.calls for cost in costs) if costs else None,
        "median_input_tokens": median(cost.input_tokens for cost in costs) if costs else None,
        "median_output_tokens": median(cost.output_tokens for cost in costs) if costs else None,
        "median_dollars": median(cost.dollars or 0.0 for cost in costs) if costs and costs[0].dollars else None,
    }
