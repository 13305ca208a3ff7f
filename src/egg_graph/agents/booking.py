"""Book a request: what it cost, and where that is told."""

import time
from typing import Any
from urllib.parse import urlsplit

from langchain_core.runnables import Runnable

from egg_graph.agents.endpoint import endpoint_url, model_name
from egg_graph.agents.partial_answer import PartialAnswer
from egg_graph.agents.tokens import estimate_tokens
from egg_graph.evaluator.progress import report_progress
from egg_graph.knowledge import Price, find_price
from egg_graph.model_requests import request_log
from egg_graph.schema import ModelRequest, Usage

_HOSTS = {"openai-chat": "api.openai.com", "anthropic-chat": "api.anthropic.com"}
"""Hosts of the models whose library names no endpoint."""
_NEVER_SENT = frozenset({"ConnectError", "ConnectionRefusedError", "gaierror"})
"""Errors of a connection that was never made."""


def cost_of(
    question: ModelRequest,
    model: Runnable[Any, Any],
    price: Price | None,
    answer: PartialAnswer,
    since: float,
    error: BaseException | None,
) -> Usage:
    """What one request cost.

    A request that the endpoint rejected cost no tokens. Where nobody told the tokens of another one, they are estimated
    from the texts, and it counts as estimated.

    Args:
        price: of the model; None where it is not known.
        since: when it was sent (`time.monotonic`).
        error: why it brought no answer; None where it brought one.
    """
    usage = answer.counted if error is None else Usage(calls=1, failed=1)
    if usage is not None and "dollars" in usage.model_fields_set:
        return usage  # a model of ours told all of it
    if usage is None or not (error is None or _is_free(error) or getattr(model, "keeps_time", False)):
        usage = Usage(
            calls=1,
            failed=0 if error is None else 1,
            input_tokens=estimate_tokens("".join(message.text for message in question.prompt)),
            output_tokens=estimate_tokens(answer.text),
            estimated=1,
        )
    return usage.model_copy(
        update={
            "seconds": time.monotonic() - since,
            "dollars": 0.0 if price is None else price.of(usage),
            "unpriced": int(price is None and usage.tokens > 0),
        }
    )


def price_of(model: Runnable[Any, Any], folder: str | None) -> Price | None:
    """The price of a chat model at its endpoint; None where it is not known."""
    url = endpoint_url(model)
    host = (urlsplit(url).hostname or "") if url else _HOSTS.get(getattr(model, "_llm_type", ""), "")
    return find_price(model_name(model), host, folder)


def book(request: ModelRequest) -> ModelRequest:
    """Keep a request in the log of the run, and tell it; return it with its number."""
    log = request_log()
    if log is not None:
        request = log.keep(request)
    report_progress(request=request)
    return request


def _is_free(error: BaseException) -> bool:
    """True where the endpoint rejected the request before it worked on it, or never got it."""
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        return 400 <= status < 500
    chain: BaseException | None = error
    while chain is not None:
        if type(chain).__name__ in _NEVER_SENT:
            return True
        chain = chain.__cause__ or chain.__context__
    return False
