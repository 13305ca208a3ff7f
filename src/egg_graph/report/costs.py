"""What the page shows of time, memory and money: rows of text for tables."""

from typing import NamedTuple

from egg_graph.report.saved_run import SavedRun
from egg_graph.schema import CallEntry, Ledger, Usage
from egg_graph.schema.spending import LEAST_SHOWN, PART_WORDS


class TimeRow(NamedTuple):
    """One part of the wall time."""

    name: str
    seconds: float
    percent: float
    """Of the whole wall time."""


def time_rows(ledger: Ledger) -> list[TimeRow]:
    """Every part of the wall time, in the ledger's order."""
    whole = ledger.seconds or 1.0
    return [TimeRow(name, took, 100 * took / whole) for name, took in ledger.rows]


def call_rows(run: SavedRun) -> list[tuple[str, ...]]:
    """Begin, call, stage, attempt, seconds, where they went, and what came of it: one row a call."""
    return [
        (
            call.begin.strftime("%H:%M:%S"),
            call.call,
            (call.stage or "").replace("_", " "),
            "" if call.attempt is None else str(call.attempt),
            f"{call.seconds:.1f}",
            _parts(call),
            ": ".join(filter(None, (call.status.replace("_", " "), call.reason))),
        )
        for call in run.calls
    ]


def _parts(call: CallEntry) -> str:
    largest = sorted(call.parts.items(), key=lambda part: -part[1])
    return ", ".join(f"{PART_WORDS[part]} {took:.1f}" for part, took in largest if took >= LEAST_SHOWN)


ROLE_COLUMNS = ("role", "answers", "requests", "input tokens", "output tokens", "money", "seconds")


def role_rows(run: SavedRun) -> list[tuple[str, ...]]:
    """Cost by role, as `ROLE_COLUMNS` says, and of all roles together; no rows where no call was noted."""
    roles = () if run.ledger is None else run.ledger.roles
    rows = [_role_row(cost.role, cost.answers, cost.usage, cost.seconds) for cost in roles]
    if len(roles) < 2:
        return rows
    usage = sum((cost.usage for cost in roles), Usage())
    return [*rows, _role_row("all", sum(c.answers for c in roles), usage, sum(c.seconds for c in roles))]


def _role_row(name: str, answers: int, usage: Usage, seconds: float) -> tuple[str, ...]:
    tokens = (f"{usage.input_tokens:,}", f"{usage.output_tokens:,}")
    return (name, str(answers), str(usage.calls), *tokens, _money(usage), f"{seconds:.1f}")


def _money(usage: Usage) -> str:
    """Dollars, as far as prices are known; "-" where nobody knows one."""
    if not usage.dollars:
        return "-"
    return f"${usage.dollars:.4f}" + (f" and {usage.unpriced} requests without a known price" if usage.unpriced else "")
