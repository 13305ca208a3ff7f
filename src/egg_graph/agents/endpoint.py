"""Turn an error of a model's endpoint into `ModelRefused` or `InfrastructureError`, with one clear line."""

import json
import traceback
from typing import Any

from langchain_core.runnables import Runnable

from egg_graph.schema import EggError, InfrastructureError, ModelRefused
from egg_graph.schema.errors import is_lost_connection, is_transient_status

_READERS = frozenset({"_create_chat_result", "_convert_chunk_to_generation_chunk"})
"""Functions of langchain-openai that read a response's body."""

_CALLERS = tuple(("langchain_core.language_models.chat_models", name) for name in ("invoke", "ainvoke"))
"""Functions of langchain-core, by module and name, that take the first of the choices."""
_URLS = ("openai_api_base", "anthropic_api_url", "base_url", "api_base")
"""Attributes in which chat models keep the address of their endpoint."""

_CURES = {
    400: "check the model's name, its context length and the parameters it accepts",
    401: "set {key} to a key that this endpoint knows",
    402: "add credit to the account",
    403: "use a key that may use this model",
    404: "check the model's name{url}",
    413: "use a model with a longer context",
    422: "check the parameters the endpoint accepts",
    429: "add credit to the account, or use another model",
}


def endpoint_failure(error: Exception, model: Runnable[Any, Any]) -> EggError | None:
    """The error as one of egg-graph's own; None where it is not the endpoint's, and should pass as it is."""
    if isinstance(error, EggError):
        return error
    status = getattr(error, "status_code", None)
    who = _endpoint(model)
    if isinstance(status, int) and status >= 400:
        said = f"{who}: HTTP {status}: {_message(error)}"
        if is_transient_status(status) and not _exhausted(error):
            return InfrastructureError(f"{said}; it is busy or broken, try again later")
        return ModelRefused(f"{said}; {_cure(status, model)}")
    if isinstance(error, TimeoutError) or "Timeout" in type(error).__name__:
        return InfrastructureError(f"{who}: no answer in time; raise --timeout (timeout=), or try again later")
    if is_lost_connection(error):
        where = " and OPENAI_BASE_URL names it" if _of_openai(model) else ""
        return InfrastructureError(f"{who}: {_message(error)}; check that it runs{where}")
    if _not_a_completion(error):
        return InfrastructureError(
            f"{who}: its answer is no chat completion ({_message(error)}); check OPENAI_BASE_URL"
        )
    if _broke_off(error):
        return InfrastructureError(
            f"{who}: its answer broke off: {_message(error)}; it is busy or broken, try again later"
        )
    return None


def _cure(status: int, model: Runnable[Any, Any]) -> str:
    keys = [variable for variable in getattr(model, "lc_secrets", {}).values() if variable.endswith("API_KEY")]
    url = " and OPENAI_BASE_URL (it usually ends in /v1)" if _of_openai(model) else ""
    cure = _CURES.get(status, "the request must change")
    return cure.format(key=keys[0] if keys else "the API key", url=url)


def _of_openai(model: Runnable[Any, Any]) -> bool:
    """True for a model that OPENAI_BASE_URL steers, or one that is hidden inside another runnable."""
    return getattr(model, "_llm_type", "openai-chat") == "openai-chat"


def endpoint_url(model: Runnable[Any, Any]) -> str:
    """The address of a chat model's endpoint; empty where its library keeps it to itself."""
    return next((u for u in (getattr(model, name, None) for name in _URLS) if isinstance(u, str)), "")


def model_name(model: Runnable[Any, Any]) -> str:
    """The name of a chat model, or else of its class."""
    return str(getattr(model, "model_name", None) or getattr(model, "model", None) or type(model).__name__)


def _endpoint(model: Runnable[Any, Any]) -> str:
    url = endpoint_url(model)
    return f"model {model_name(model)}" + (f" at {url}" if url else "")


def _message(error: Exception) -> str:
    """One short line: the server's message, or the error's own text."""
    body = getattr(error, "body", None)
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        body = body["error"]  # anthropic's library hands on the whole body, openai's what its "error" holds
    said = body.get("message") if isinstance(body, dict) else None
    text = " ".join(str(said or error).split()) or type(error).__name__
    return text if len(text) <= 300 else text[:299] + "…"


def _exhausted(error: Exception) -> bool:
    """True for a 429 that reports spent credit: waiting does not help."""
    body = getattr(error, "body", None)
    return getattr(error, "code", None) == "insufficient_quota" or (
        isinstance(body, dict) and body.get("code") == "insufficient_quota"
    )


def _broke_off(error: Exception) -> bool:
    """True for an error that the endpoint told in the middle of its answer, which had begun as a success."""
    return any(cls.__name__ == "APIError" for cls in type(error).__mro__)


def _not_a_completion(error: Exception) -> bool:
    """True where langchain-openai failed while it read a response that is no chat completion."""
    if isinstance(error, json.JSONDecodeError) or "No generation chunks" in str(error):
        return True
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    places = [(frame.f_globals.get("__name__", ""), frame.f_code.co_name) for frame in frames]
    if isinstance(error, IndexError) and places[-1] in _CALLERS:
        return True  # the list of choices is empty
    return any(module.startswith("langchain_openai") and function in _READERS for module, function in places)
