"""Receive one answer piece by piece, and watch for silence: a long answer is no failure, a silent endpoint is one."""

import asyncio
from contextlib import aclosing
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableConfig

from egg_graph.agents.partial_answer import PartialAnswer
from egg_graph.calls import Call
from egg_graph.schema import Message

_MESSAGES: dict[str, type[BaseMessage]] = {"system": SystemMessage, "user": HumanMessage, "assistant": AIMessage}
_OWN_TIMEOUT = {"openai-chat": "request_timeout", "anthropic-chat": "default_request_timeout"}
"""The attribute with a model's own time-out, by its `_llm_type`: of those that take one with each request."""


async def receive(
    model: Runnable[Any, Any],
    config: RunnableConfig,
    prompt: tuple[Message, ...],
    answer: PartialAnswer,
    timeout: float,
) -> None:
    """Send a prompt once, and add every piece of the answer to `answer` as it comes.

    Args:
        timeout: most seconds between two pieces. A model that keeps the time itself (`keeps_time`), or has a time-out
            of its own, is not held to it. From synchronous code only the model's own client can end the wait.

    Raises:
        TimeoutError: after that much silence; beside it, whatever the model raises.
    """
    messages = [_MESSAGES[message.role](message.text) for message in prompt]
    options = _options(model, timeout)
    silence = None if getattr(model, "keeps_time", False) else timeout

    def stream() -> None:
        for piece in model.stream(messages, config, **options):
            answer.add(piece)

    async def astream() -> None:
        async with aclosing(model.astream(messages, config, **options)) as pieces:  # type: ignore[type-var]
            while True:
                try:
                    async with asyncio.timeout(silence):
                        piece = await anext(pieces)
                except StopAsyncIteration:
                    return
                answer.add(piece)

    await Call(stream, twin=astream)


def _options(model: Runnable[Any, Any], timeout: float) -> dict[str, Any]:
    """What a request says beside its messages: the client's time-out, and that a stream is to tell its tokens."""
    kind = getattr(model, "_llm_type", "")
    options: dict[str, Any] = {}
    if kind in _OWN_TIMEOUT and getattr(model, _OWN_TIMEOUT[kind], None) is None:
        options["timeout"] = timeout
    if kind == "openai-chat" and getattr(model, "stream_usage", None) is None:
        options["stream_usage"] = True
    return options
