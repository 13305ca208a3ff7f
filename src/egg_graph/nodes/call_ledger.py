"""Tell each call of the evaluator and of a role when it is over: when it began, how long it took, on what."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from langgraph.errors import GraphBubbleUp

from egg_graph.evaluator.spending import Account, accounted
from egg_graph.nodes.announce import send_here
from egg_graph.nodes.events import Event, ledger_event
from egg_graph.schema import AnswerPending, CallEntry, CallKind, Part, Spending, Usage
from egg_graph.schema.ledger import whole_parts


class CallAtWork:
    """A call whose answer is awaited; what the answer tells about it is noted here."""

    def __init__(self) -> None:
        self.spent: Spending | None = None
        self.told: dict[str, Any] = {}

    def answered(self, usage: Usage) -> None:
        """Note a role's answer."""
        self.told = {"usage": usage}


@contextmanager
def ledger_entry(call: CallKind, **about: Any) -> Iterator[CallAtWork]:
    """Let the node at work send the event `ledger` when the block is over, also where it fails.

    Args:
        call: what is called.
        about: fields of `CallEntry` that are known before; stage and attempt are those of the node where it has them.
    """
    begin, started, at_work = datetime.now(UTC), time.monotonic(), CallAtWork()

    def send(account: Account, rest: Part, **fields: Any) -> None:
        seconds = round(time.monotonic() - started, 6)
        told = account.spending() if at_work.spent is None else account.spending() + at_work.spent
        parts = whole_parts({p: s for p, s in told.seconds.items() if p != "other"}, seconds, rest)
        own = {**about, **at_work.told, **fields}

        def make(node: Event) -> Event:
            place = {name: value for name, value in node.items() if name in ("stage", "attempt")}
            spent = {"begin": begin, "seconds": seconds, "parts": parts, "memory": told.memory}
            return ledger_event(CallEntry(call=call, **{**place, **spent, **own}))

        send_here(make)

    with accounted() as account:
        try:
            yield at_work
        except GraphBubbleUp:
            raise
        except Exception as error:
            rest: Part = "waiting" if isinstance(error, AnswerPending) else "failed"
            status = "pending" if rest == "waiting" else "failed"
            send(account, rest, status=status, reason=" ".join(str(error).split())[:300])
            raise
        send(account, _rest(call, at_work))


def _rest(call: CallKind, at_work: CallAtWork) -> Part:
    """What the time of a call that nobody tells is spent on: the role's answer, or what only the evaluator knows."""
    if call in ("baseline", "evaluation", "finalist", "sweep"):
        return "other"
    if call == "profile":
        return "profile"
    usage = at_work.told.get("usage")
    return "model" if usage is not None and usage.calls else "team"
