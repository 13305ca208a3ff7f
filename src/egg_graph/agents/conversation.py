"""One question to a chat model, one re-ask if the answer cannot be read, and what it cost."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableConfig

from egg_graph.agents.endpoint import endpoint_failure
from egg_graph.agents.parsing import Reply, Unreadable
from egg_graph.calls import Call
from egg_graph.schema import Usage

T = TypeVar("T")

_CUT_OFF = frozenset({"length", "max_tokens", "MAX_TOKENS"})
"""Finish reasons by which providers report that an answer hit the output limit."""

_QUOTED = 4000
"""Most characters of an unreadable answer that the model is shown again."""


@dataclass(frozen=True)
class Conversation(Generic[T]):
    """The result of a conversation: a value, or why there is none."""

    value: T | None
    problem: str
    """Why the last answer could not be read; empty where there is a value."""
    usage: Usage
    mended: tuple[str, ...] = ()
    """What it took to get an answer, one line each."""


async def converse(
    model: Runnable[Any, Any], config: RunnableConfig, system: str, prompt: str, read: Callable[[Reply], T]
) -> Conversation[T]:
    """Ask once; if `read` finds the answer unreadable, ask once more with the reason.

    Args:
        config: of every call; tags, name and metadata by which a trace shows it.

    Raises:
        ModelRefused: if the endpoint rejects the request, so that asking again would change nothing.
        InfrastructureError: if the endpoint is busy, broken or out of reach.
    """
    messages: list[BaseMessage] = [SystemMessage(system), HumanMessage(prompt)]
    usage = Usage()
    problem = ""
    mended: tuple[str, ...] = ()
    for _ in range(2):
        reply, cost = await _ask(model, config, messages)
        usage += cost
        try:
            return Conversation(read(reply), "", usage, mended)
        except Unreadable as unreadable:
            problem = unreadable.reason
            mended = (*mended, f"an answer that cannot be used: {problem}")
            messages = [
                *messages[:2],
                AIMessage(reply.text[:_QUOTED] or "(no text)"),
                HumanMessage(f"Your answer cannot be used: {unreadable.reason}. {unreadable.request}"),
            ]
    return Conversation(None, problem, usage, mended)


async def _ask(model: Runnable[Any, Any], config: RunnableConfig, messages: list[BaseMessage]) -> tuple[Reply, Usage]:
    start = time.monotonic()
    try:
        message: Any = await Call(model.invoke, messages, config=config)
    except Exception as error:
        failure = endpoint_failure(error, model)
        if failure is None:
            raise
        raise failure from error
    counted = message.usage_metadata or {}
    usage = Usage(
        calls=1,
        input_tokens=counted.get("input_tokens", 0),
        output_tokens=counted.get("output_tokens", 0),
        seconds=time.monotonic() - start,
    )
    meta = message.response_metadata
    truncated = bool({meta.get("finish_reason"), meta.get("stop_reason")} & _CUT_OFF)
    return Reply(text=str(message.text), truncated=truncated), usage
