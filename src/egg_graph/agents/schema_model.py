"""A model as one role asks it: by the JSON schema of the answer where its endpoint takes one, in words where not."""

import logging
import warnings
from collections.abc import Mapping
from inspect import signature
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable, RunnableSequence
from langchain_core.runnables.base import RunnableBinding

from egg_graph.schema import ModelRefused

LOG = logging.getLogger("egg_graph")

_UNKNOWN_PARAMETER = frozenset({400, 404, 415, 422, 501})
"""HTTP statuses by which endpoints answer a parameter that they do not know."""
WITHOUT_SCHEMA = "asked without a JSON schema, which the endpoint refused"


class SchemaModel:
    """A chat model, asked by a schema until its endpoint refuses that once.

    The answer is read as text in both cases: a schema saves the questions that a misshapen answer costs.
    """

    def __init__(self, model: Runnable[Any, Any], schema: Mapping[str, Any] | None = None) -> None:
        """
        Args:
            schema: of the answer; None for an answer that is no JSON.
        """
        self._plain = model
        options = {} if schema is None else _schema_options(model, schema)
        self._bound = model.bind(**options) if options else None
        if schema is not None and not options:
            LOG.info("%s offers no JSON schema output: asked in words", type(model).__name__)

    @property
    def model(self) -> Runnable[Any, Any]:
        """What the next question goes to."""
        return self._bound or self._plain

    def give_up_schema(self, refusal: ModelRefused, error: Exception) -> bool:
        """Ask in words from now on, if what the endpoint refused may be the schema.

        Args:
            refusal: what it refused, in words.
            error: the same, as the model's library raised it.

        Returns:
            Whether the next question is another one.
        """
        status = getattr(error, "status_code", None)
        if self._bound is None or status not in _UNKNOWN_PARAMETER:
            return False
        self._bound = None
        LOG.warning("%s: %s", WITHOUT_SCHEMA, refusal)
        return True


def _schema_options(model: Runnable[Any, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a request that ask for this schema; empty where the model has none for it."""
    bound = model.kwargs if isinstance(model, RunnableBinding) else {}
    chat = model.bound if isinstance(model, RunnableBinding) else model
    if not isinstance(chat, BaseChatModel):
        return {}
    strict = {"strict": True} if "strict" in signature(chat.with_structured_output).parameters else {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it takes tools in place of a schema, which the next lines refuse
            structured = chat.with_structured_output(dict(schema), method="json_schema", **strict)
    except (NotImplementedError, ValueError, TypeError):
        return {}
    first = structured.first if isinstance(structured, RunnableSequence) else None
    if not isinstance(first, RunnableBinding) or "tools" in first.kwargs:
        return {}
    options = {name: value for name, value in first.kwargs.items() if name != "ls_structured_output_format"}
    if "response_format" not in options:
        return {name: value for name, value in options.items() if name not in bound}
    if "response_format" in bound:
        return {}
    # As a plain field of the request: by its own option, openai's client raises for an answer that was cut off.
    extra = bound.get("extra_body") or getattr(chat, "extra_body", None) or {}
    return {"extra_body": {"response_format": options["response_format"], **extra}}
