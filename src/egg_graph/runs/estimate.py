"""What a run will cost, before it runs: an estimate from what such runs took."""

from dataclasses import dataclass

from egg_graph.context import Context
from egg_graph.schema import Role, Usage
from egg_graph.team import Team, model_prices

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

    def __str__(self) -> str:
        usage = self.usage
        money = f"${usage.dollars:.2f}"
        if self.unpriced:
            money = f"price of {', '.join(self.unpriced)} unknown"
        return f"about {usage.calls} requests, {usage.input_tokens:,} tokens in, {usage.output_tokens:,} out, {money}"


def estimate_run(team: Team, context: Context, reference: str) -> Estimate | None:
    """Estimate the cost of a run; None for a team that is not made of models.

    A typical run writes one seed and repairs it once, and plans and writes one optimization in each stage.
    """
    prices = model_prices(team, context.knowledge_dir)
    if not prices:
        return None
    plans = len(context.stages) if context.max_optimizations else 0
    repairs = min(1, context.max_repairs)
    calls: dict[Role, int] = {"coder": 1 + repairs + plans, "debugger": repairs, "analyst": plans}
    total = Usage()
    for role, count in calls.items():
        prompt, answer = TYPICAL[role]
        tokens_in = count * (prompt + len(reference) // CHARACTERS_PER_TOKEN)
        cost = Usage(calls=count, input_tokens=tokens_in, output_tokens=count * answer)
        price = prices[role][1]
        total += cost.model_copy(update={"dollars": 0.0 if price is None else price.of(cost)})
    return Estimate(total, tuple(sorted({name for name, price in prices.values() if price is None})))
