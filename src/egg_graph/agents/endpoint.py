"""What an error of a model's endpoint means: refused (never again), or worth another try. One clear line either way."""

import json
import traceback
from typing import Any

from langchain_core.runnables import Runnable

from egg_graph.schema import EggError, InfrastructureError, ModelRefused

_TRANSIENT_STATUS = frozenset({408, 409, 425, 429})
_TRANSIENT_CLASSES = frozenset(
    {"APIConnectionError", "APITimeoutError", "RateLimitError", "InternalServerError", "TransportError"}
)
"""Base classes of openai, httpx and their kin; named, so that no HTTP library is imported here."""

_READERS = frozenset({"_create_chat_result", "_convert_chunk_to_generation_chunk"})
"""Functions of langchain-openai that take a response's body apart."""

_CURES = {
    400: "check the model's name, its context length and the parameters it accepts",
    401: "set OPENAI_API_KEY to a key that this endpoint knows",
    402: "add credit to the account",
    403: "use a key that may use this model",
    404: "check the model's name and OPENAI_BASE_URL (it usually ends in /v1)",
    413: "use a model with a longer context",
    422: "check the parameters the endpoint accepts",
    429: "add credit to the account, or use another model",
}


def endpoint_failure(error: Exception, model: Runnable[Any, Any]) -> EggError | None:
    """The error as ours, or None where it is not the endpoint's (then let it pass)."""
    if isinstance(error, EggError):
        return error
    status = getattr(error, "status_code", None)
    who = _endpoint(model)
    if isinstance(status, int):
        said = f"{who}: HTTP {status}: {_message(error)}"
        if (status in _TRANSIENT_STATUS or status >= 500) and not _exhausted(error):
            return InfrastructureError(f"{said}; it is busy or broken, try again later")
        return ModelRefused(f"{said}; {_CURES.get(status, 'the request must change')}")
    if isinstance(error, TimeoutError) or "Timeout" in type(error).__name__:
        return InfrastructureError(f"{who}: no answer in time; raise the model's timeout, or try again later")
    if isinstance(error, ConnectionError) or any(cls.__name__ in _TRANSIENT_CLASSES for cls in type(error).__mro__):
        return InfrastructureError(f"{who}: {_message(error)}; check that it runs and OPENAI_BASE_URL names it")
    if _not_a_completion(error):
        return InfrastructureError(
            f"{who}: its answer is no chat completion ({_message(error)}); check OPENAI_BASE_URL"
        )
    return None


def _endpoint(model: Runnable[Any, Any]) -> str:
    name = getattr(model, "model_name", None) or getattr(model, "model", None) or type(model).__name__
    url = getattr(model, "openai_api_base", None)
    return f"model {name}" + (f" at {url}" if url else "")


def _message(error: Exception) -> str:
    """The server's own words where the body has them, as one short line."""
    body = getattr(error, "body", None)
    said = body.get("message") if isinstance(body, dict) else None
    text = " ".join(str(said or error).split()) or type(error).__name__
    return text if len(text) <= 300 else text[:299] + "…"


def _exhausted(error: Exception) -> bool:
    """A 429 about money: waiting does not mend it."""
    body = getattr(error, "body", None)
    return getattr(error, "code", None) == "insufficient_quota" or (
        isinstance(body, dict) and body.get("code") == "insufficient_quota"
    )


def _not_a_completion(error: Exception) -> bool:
    """Raised while langchain-openai read the body of a response that is JSON, or text, but no chat completion."""
    if isinstance(error, json.JSONDecodeError) or "No generation chunks" in str(error):
        return True
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    places = [(frame.f_globals.get("__name__", ""), frame.f_code.co_name) for frame in frames]
    if isinstance(error, IndexError) and places[-1] == ("langchain_core.language_models.chat_models", "invoke"):
        return True  # a list of no choices
    return any(module.startswith("langchain_openai") and function in _READERS for module, function in places)
