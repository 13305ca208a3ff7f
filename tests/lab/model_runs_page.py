"""The page of model runs: their kernels and their costs."""

from collections.abc import Sequence
from pathlib import Path

from egg_graph.bench.writing import markdown_table, write_results
from egg_graph.schema import ROLES, USABLE
from tests.lab.model_runs_parts import parts_worth
from tests.lab.model_runs_table import (
    NOT_ENDED,
    NOT_MEASURED,
    STAGES,
    ModelRunResults,
    ModelRunRow,
    RoleCost,
    sum_costs,
    summarize,
)
from tests.lab.model_runs_without import parts_left_out


def write_model_runs(out: Path, results: ModelRunResults) -> None:
    """Write the results and their page.

    Raises:
        BadInput: if they cannot be written.
    """
    write_results(out, results, model_runs_page(results), summary=summarize(results.rows))


def model_runs_page(results: ModelRunResults) -> str:
    """The page of the results."""
    rows = results.rows
    lines = [
        "# What a model in the roles is worth",
        "",
        results.terms.line(results.environment),
        "",
        *_told(rows, results),
        "",
        "## Kernels",
        "",
        "A ratio is the better of eager and torch.compile over the kernel, both at the kernel's precision. `attempt 0` "
        "is the embedded expert's first kernel, before a model was asked; a stage's column holds the best kernel at "
        "its end; `handed over` is the finalist's own measurement. A problem whose run keeps the reference counts as "
        "1.0.",
        "",
        *_kernels(rows),
        "",
        *_parts(rows),
        *_without(rows, results.rows_without),
        "## Costs",
        "",
        "Tokens of prompts and answers that whoever answers does not tell are estimated from the texts."
        + (f" Money is what they would cost at the price of {results.priced_as}." if results.price else ""),
        "",
        *_roles_table(rows),
        "",
        *_costs_table(rows),
    ]
    return "\n".join(lines) + "\n"


def _told(rows: Sequence[ModelRunRow], results: ModelRunResults) -> list[str]:
    """The summary in words."""
    if not rows:
        return ["No run has ended."]
    s = summarize(rows)
    told = [
        f"- {s['right']} of {s['problems']} runs ended with a right kernel, {s['handed_over']} handed one over; the "
        f"team wrote a right one in {s['team_right']}, at the first try in {s['right_at_the_first_try']}.",
        f"- Over PyTorch, geometric mean and median: {_figure(s['geometric_mean'])}, {_figure(s['median'])}; the "
        f"embedded expert alone {_figure(s['expert_geometric_mean'])}, {_figure(s['expert_median'])}; gain over it "
        f"{_figure(s['gain_over_the_expert'])} (geometric mean).",
        f"- Attempt 0 {_figure(s['contender_geometric_mean'])}; then "
        + ", ".join(f"after {stage} {_figure(s['after'][stage])}" for stage in STAGES)
        + " (geometric means of the problems that have one).",
        f"- Median per problem: {s['median_calls']:g} calls, {s['median_input_tokens']:,.0f} tokens in, "
        f"{s['median_output_tokens']:,.0f} out" + (f", ${s['median_dollars']:.2f}." if s["median_dollars"] else "."),
    ]
    if replayed := [row for row in rows if row.replay]:
        agree = sum(row.replay == "agrees" for row in replayed)
        told.append(f"- Replay without key and GPU: {agree} of {len(replayed)} runs end as they did.")
        told += [f"  - {row.problem}: {row.replay}" for row in replayed if row.replay != "agrees"]
    if results.unfinished:
        told.append(f"- Not ended: {', '.join(results.unfinished)}.")
    return told


def _kernels(rows: Sequence[ModelRunRow]) -> list[str]:
    header = ["problem", "status", "right", "first try", "right at once", "repairs", "PyTorch [ms]", "attempt 0"]
    header += [*STAGES, "handed over", "interval", "expert alone", "gain"]
    table = []
    for row in rows:
        base = min(filter(None, (row.eager_ms, row.compile_ms)), default=None)
        table.append(
            [
                row.problem,
                row.status,
                "yes" if row.right else "no",
                row.first_try or "none",
                f"{row.right_at_once} of {row.drafts}",
                str(row.repairs),
                NOT_MEASURED if base is None else f"{base:.4g}",
                _figure(row.contender),
                *(_figure(row.after[stage]) for stage in STAGES),
                _figure(row.ratio),
                "" if row.low is None or row.high is None else f"{row.low:.3f} to {row.high:.3f}",
                _expert(row),
                _figure(row.gain),
            ]
        )
    return markdown_table(header, table)


def _expert(row: ModelRunRow) -> str:
    """What the embedded expert's own run came to."""
    if row.expert_status == NOT_ENDED and row.expert_ratio is not None:
        return f"{_figure(row.expert_ratio)} ({NOT_ENDED})"
    return _figure(row.expert_ratio) if row.expert_status in USABLE else row.expert_status or "no run"


def _parts(rows: Sequence[ModelRunRow]) -> list[str]:
    """What each part was worth; nothing where no kernel was measured faster."""
    if all(row.without.get("", 1.0) == 1.0 for row in rows):
        return []
    table = [
        [worth.part, f"{worth.gain.value:.3f}", f"{worth.gain.low:.3f} to {worth.gain.high:.3f}", str(worth.better)]
        for worth in parts_worth([row.without for row in rows])
    ]
    return [
        "## What each part was worth",
        "",
        "The run's best measured ratio over the best one in which the part had no hand (the kernels that it made and "
        "those made from them left out), geometric mean over all problems with its 95 % interval, and the problems "
        "where that is more than 1 %. What a model would have written instead is not known. `team` is the model "
        "itself: without it attempt 0 and its sweeps are left.",
        "",
        *markdown_table(["without", "gain", "interval", "problems"], table),
        "",
    ]


def _without(rows: Sequence[ModelRunRow], others: Sequence[ModelRunRow]) -> list[str]:
    """Whole runs against those that did without a part; nothing where there are none."""
    if not others:
        return []
    table = [
        [
            one.part,
            str(one.pairs),
            f"{one.whole:.3f}",
            f"{one.without:.3f}",
            f"{one.gain.value:.3f}",
            f"{one.gain.low:.3f} to {one.gain.high:.3f}",
            f"{one.better}, {one.worse}",
            f"{one.calls_whole:g}, {one.calls_without:g}",
            f"{one.tokens_whole:,.0f}, {one.tokens_without:,.0f}",
        ]
        for one in parts_left_out(rows, others)
    ]
    header = ["without", "pairs", "with it", "without it", "gain", "interval", "better, worse"]
    header += ["calls with, without", "tokens in with, without"]
    return [
        "## Runs without a part",
        "",
        "Whole runs against runs of the same problems without a part, of equal budget: the geometric means of the best "
        "measured ratio, what is not right or slower than PyTorch being 1.0, and of their quotient with its 95 % "
        "interval; problems better and worse with the part by more than 1 %; medians of calls and tokens. Runs that "
        "ask the same get the same answer.",
        "",
        *markdown_table(header, table),
        "",
    ]


def _roles_table(rows: Sequence[ModelRunRow]) -> list[str]:
    """What each role cost at all problems together."""
    sums = {role: sum_costs(row.costs[role] for row in rows if role in row.costs) for role in ROLES}
    table = [
        [role, str(cost.calls), f"{cost.input_tokens:,}", f"{cost.output_tokens:,}", _money(cost)]
        for role, cost in sums.items()
    ]
    return markdown_table(["role", "calls", "tokens in", "tokens out", "money"], table)


def _money(cost: RoleCost) -> str:
    return NOT_MEASURED if cost.dollars is None else f"${cost.dollars:.3f}"


def _costs_table(rows: Sequence[ModelRunRow]) -> list[str]:
    header = ["problem", *(f"{role}: calls, in, out" for role in ROLES), "calls", "tokens in", "tokens out", "money"]
    table = []
    for row in rows:
        each = [row.costs.get(role, RoleCost()) for role in ROLES]
        whole = row.cost
        shares = [f"{cost.calls}, {cost.input_tokens:,}, {cost.output_tokens:,}" for cost in each]
        sums = [str(whole.calls), f"{whole.input_tokens:,}", f"{whole.output_tokens:,}", _money(whole)]
        table.append([row.problem, *shares, *sums])
    return markdown_table(header, table)


def _figure(value: float | None) -> str:
    return NOT_MEASURED if value is None else f"{value:.3f}"
