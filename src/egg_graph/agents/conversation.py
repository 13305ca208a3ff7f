"""One question to a chat model, one re-ask if the answer cannot be read, and what it cost."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from langchain_core.runnables import RunnableConfig

from egg_graph.agents.parsing import Reply, Unreadable
from egg_graph.agents.requests import BudgetSpent, ModelChannel
from egg_graph.evaluator.progress import report_progress
from egg_graph.model_requests import request_log, terms
from egg_graph.schema import Message, ModelRequest, Usage

T = TypeVar("T")

_QUOTED = 4000
"""Most characters of an unreadable answer that the model is shown again."""


@dataclass(frozen=True)
class Conversation(Generic[T]):
    """The result of a conversation: a value, or why there is none."""

    value: T | None
    problem: str
    """Why the last answer could not be read, or none came; empty where there is a value."""
    usage: Usage
    mended: tuple[str, ...] = ()
    """What it took to get an answer, one line each."""
    withheld: str = ""
    """The budget that forbade asking again; empty where none did."""


async def converse(
    channel: ModelChannel, config: RunnableConfig, question: ModelRequest, read: Callable[[Reply], T]
) -> Conversation[T]:
    """Ask once; if `read` finds the answer unreadable and there is budget left, ask once more with the reason.

    Args:
        config: of every call; tags, name and metadata by which a trace shows it.
        question: who asks, and the prompt.

    Raises:
        ModelRefused: if the endpoint rejects the request, so that asking again would change nothing.
        ModelUnavailable: if the endpoint stays busy, broken or out of reach.
    """
    usage, problem, withheld, asked = Usage(), "", "", question.prompt
    mended: tuple[str, ...] = ()
    for _ in range(2):
        if withheld := terms().spent(usage):  # at first, too: a run may be resumed with a lower budget
            problem = f"{problem}; not asked again: {withheld}" if problem else f"not asked: {withheld}"
            break
        try:
            answered = await channel.ask(question.model_copy(update={"prompt": asked}), config, usage)
        except BudgetSpent as spent:
            usage, problem, withheld = usage + spent.cost, str(spent), spent.budget
            break
        usage, mended, reply = usage + answered.cost, (*mended, *answered.mended), answered.reply
        try:
            return Conversation(read(reply), "", _booked(usage, question), mended)
        except Unreadable as unreadable:
            problem = unreadable.reason
            mended = (*mended, f"an answer that cannot be used: {problem}")
            report_progress(f"the answer cannot be used, so the {question.role} is asked again: {problem}")
            complaint = f"Your answer cannot be used: {unreadable.reason}. {unreadable.request}"
            answer = Message(role="assistant", text=reply.text[:_QUOTED] or "(no text)")
            asked = (*question.prompt, answer, Message(role="user", text=complaint))
    return Conversation(None, problem, _booked(usage, question), mended, withheld)


def _booked(usage: Usage, question: ModelRequest) -> Usage:
    """The cost of this conversation; where a log keeps every request, with what it is still owed for others."""
    log = request_log()
    return usage if log is None else log.owed(question.draft)
