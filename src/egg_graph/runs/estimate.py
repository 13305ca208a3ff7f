"""What a run will cost, before it runs: an estimate from what such runs took."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from egg_graph.budgets import add_cost, spent_by
from egg_graph.context import Context
from egg_graph.knowledge import Price
from egg_graph.schema import ROLES, Role, StageName, Usage
from egg_graph.stages import TUNING_STAGES
from egg_graph.state import OutputState
from egg_graph.team import each_model, model_prices, resolve_team

TYPICAL: dict[Role, tuple[int, int]] = {"analyst": (5500, 700), "coder": (6000, 3000), "debugger": (5000, 300)}
"""Tokens of one prompt and of one answer by role, without the reference: three KernelBench problems took 11 to 12
requests and 55,000 to 77,000 tokens of prompts."""
CHARACTERS_PER_TOKEN = 4
UNSOLD = ("replay", "handoff")
"""Kinds of models whose answers have no price."""


@dataclass(frozen=True)
class Estimate:
    """What a run will probably cost."""

    usage: Usage
    unpriced: tuple[str, ...]
    """Models whose price is not known; `usage.dollars` leaves them out."""
    sold: bool = True
    """False where no answer has a price, because whoever answers files does."""

    def __str__(self) -> str:
        usage = self.usage
        money = f", ${usage.dollars:.2f}" if self.sold else ""
        if self.unpriced:
            money = f", price of {', '.join(self.unpriced)} unknown"
        return f"about {usage.calls} requests, {usage.input_tokens:,} tokens in, {usage.output_tokens:,} out{money}"


def estimate_run(
    model: str | Mapping[str, Any] | None, context: Context, reference: str, *, timed: bool = True
) -> Estimate | None:
    """Estimate the cost of a run; None where no model is asked anew: the embedded expert, or a replay.

    A typical run writes one seed and repairs it once, and plans and writes one optimization in each stage, as far as
    its budgets go.

    Args:
        model: the names of the models, as `egg_graph.team.read_models` returns them.
        timed: whether kernels will be timed; where they are not, no hardware tuning is paid.
    """
    given = {role: model.get(role, "") if isinstance(model, Mapping) else model or "" for role in ROLES}
    prices = model_prices(resolve_team(model), context.knowledge_dir)
    players = {
        role: list(zip(map(_kind, each_model(given[role])), _prices_of(role, prices), strict=True))
        for role in ROLES
        if role in prices
    }
    kinds = {kind for each in players.values() for kind, _ in each}
    if kinds <= {"replay"}:
        return None
    state: OutputState = {}
    for stage, role, draft in _course(context, timed):
        if role not in players:
            continue
        kind, (_, price) = players[role][draft % len(players[role])]
        if kind != "replay" and not spent_by(state, context, stage, role):
            prompt, answer = TYPICAL[role]
            tokens = prompt + len(reference) // CHARACTERS_PER_TOKEN
            cost = Usage(calls=1, input_tokens=tokens, output_tokens=answer)
            dollars = 0.0 if price is None or kind == "handoff" else price.of(cost)
            state = {**state, **add_cost(state, stage, role, cost.model_copy(update={"dollars": dollars}))}
    sold = [(name, price) for each in players.values() for kind, (name, price) in each if kind not in UNSOLD]
    unpriced = {name for name, price in sold if price is None}
    return Estimate(state.get("usage", Usage()), tuple(sorted(unpriced)), bool(sold))


def _kind(name: str) -> str:
    """What stands before the colon in a model's name: its provider, `replay` or `handoff`."""
    return name.strip().partition(":")[0]


def _prices_of(role: Role, prices: Mapping[str, tuple[str, Price | None]]) -> list[tuple[str, Price | None]]:
    """Model and price of everyone who plays a role, in order: the coder may have several."""
    return [price for key, price in prices.items() if key.partition(" ")[0] == role]


def _course(context: Context, timed: bool) -> Iterator[tuple[StageName, Role, int]]:
    """Stage, role and number of the draft (from 0) of each request of a typical run, of at most `max_attempts`."""
    steps: list[tuple[StageName, tuple[Role, ...]]] = []
    coder: Role = "coder"
    drafts = (coder,) * context.width
    if context.stages:
        steps.append((context.stages[0], drafts))
        if context.max_repairs:
            steps.append((context.stages[0], ("debugger", "coder")))
    if context.max_optimizations:
        left_out = () if timed or context.tune_untimed else {stage.name for stage in TUNING_STAGES}
        steps += [(stage, ("analyst", *drafts)) for stage in context.stages if stage not in left_out]
    attempts = 0
    for stage, roles in steps:
        if attempts < context.max_attempts:
            yield from ((stage, role, roles[:place].count("coder")) for place, role in enumerate(roles))
        attempts += roles.count("coder")
