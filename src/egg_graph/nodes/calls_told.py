"""Tell each call of the evaluator and of a role when it is over: when it began, how long it took, on what."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from langgraph.errors import GraphBubbleUp
from langgraph.runtime import Runtime

from egg_graph.context import Context
from egg_graph.evaluator.spending import Account, accounted
from egg_graph.nodes.events import ledger_event
from egg_graph.schema import AnswerPending, CallEntry, CallKind, Evaluation, Part, Spending, Usage
from egg_graph.schema.ledger import whole_parts


class CallAtWork:
    """A call whose answer is awaited; what the answer tells about it is noted here."""

    def __init__(self) -> None:
        self.spent = Spending()
        self.told: dict[str, Any] = {}

    def judged(self, evaluation: Evaluation) -> None:
        """Note an evaluator's answer on one candidate."""
        self.spent = evaluation.spent
        self.told = {"candidate": evaluation.candidate, "status": evaluation.status}

    def answered(self, usage: Usage) -> None:
        """Note a role's answer."""
        self.told = {"usage": usage}


@contextmanager
def call_told(runtime: Runtime[Context], call: CallKind, **about: Any) -> Iterator[CallAtWork]:
    """Send the event `ledger` when the block is over, also where it fails.

    Args:
        runtime: whose stream gets the event.
        call: what is called.
        about: fields of `CallEntry` that are known before: stage, attempt.
    """
    begin, started, at_work = datetime.now(UTC), time.monotonic(), CallAtWork()

    def entry(account: Account, **fields: Any) -> CallEntry:
        seconds = round(time.monotonic() - started, 6)
        told, rest = account.spending() + at_work.spent, fields.pop("rest")
        parts = whole_parts({p: s for p, s in told.seconds.items() if p != "other"}, seconds, rest)
        known = {**about, **at_work.told, **fields}
        return CallEntry(call=call, begin=begin, seconds=seconds, parts=parts, memory=told.memory, **known)

    with accounted() as account:
        try:
            yield at_work
        except GraphBubbleUp:
            raise
        except Exception as error:
            pending = isinstance(error, AnswerPending)
            how = {"rest": "waiting", "status": "pending"} if pending else {"rest": "failed", "status": "failed"}
            runtime.stream_writer(ledger_event(entry(account, reason=" ".join(str(error).split())[:300], **how)))
            raise
        runtime.stream_writer(ledger_event(entry(account, rest=_rest(call, at_work))))


def _rest(call: CallKind, at_work: CallAtWork) -> Part:
    """What the time of a call that nobody tells is spent on: the role's answer, or what only the evaluator knows."""
    if call in ("baseline", "evaluation", "finalist", "sweep"):
        return "other"
    usage = at_work.told.get("usage")
    return "model" if usage is not None and usage.calls else "team"
