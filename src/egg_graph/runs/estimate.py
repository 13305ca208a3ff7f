"""What a run will cost, before it runs: an estimate from what such runs took."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from egg_graph.budgets import add_cost, spent_by
from egg_graph.context import Context
from egg_graph.schema import ROLES, Role, StageName, Usage
from egg_graph.stages import TUNING_STAGES
from egg_graph.state import OutputState
from egg_graph.team import model_prices, resolve_team

TYPICAL: dict[Role, tuple[int, int]] = {"analyst": (5500, 700), "coder": (6000, 3000), "debugger": (5000, 300)}
"""Tokens of one prompt and of one answer by role, without the reference: three KernelBench problems took 11 to 12
requests and 55,000 to 77,000 tokens of prompts."""
CHARACTERS_PER_TOKEN = 4


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
    names = {role: model.get(role, "") if isinstance(model, Mapping) else model or "" for role in ROLES}
    firsts = {role: name if isinstance(name, str) else name[0] for role, name in names.items()}
    kinds = {role: name.strip().partition(":")[0] for role, name in firsts.items()}
    prices = model_prices(resolve_team(model), context.knowledge_dir)
    asked = {role for role in ROLES if role in prices and kinds[role] != "replay"}
    sold = {role for role in asked if kinds[role] != "handoff"}
    if not asked:
        return None
    state: OutputState = {}
    coders = [prices[name] for name in prices if name.startswith("coder")]
    for stage, role, draft in _course(context, timed):
        if role in asked and not spent_by(state, context, stage, role):
            prompt, answer = TYPICAL[role]
            tokens = prompt + len(reference) // CHARACTERS_PER_TOKEN
            cost = Usage(calls=1, input_tokens=tokens, output_tokens=answer)
            _, price = coders[draft % len(coders)] if role == "coder" else prices[role]
            price = price if role in sold else None
            dollars = 0.0 if price is None else price.of(cost)
            state = {**state, **add_cost(state, stage, role, cost.model_copy(update={"dollars": dollars}))}
    unpriced = {name for role, (name, price) in prices.items() if role.partition(" ")[0] in sold and price is None}
    return Estimate(state.get("usage", Usage()), tuple(sorted(unpriced)), bool(sold))


def _course(context: Context, timed: bool) -> Iterator[tuple[StageName, Role, int]]:
    """The requests of a typical run, in order, of at most `max_attempts` attempts; of drafts side by side also which
    one it is, from 0.
    """
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
