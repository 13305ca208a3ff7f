"""A Team played by chat models."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable

from egg_graph.agents.analyst import ANALYST, WIDE_SCHEMA
from egg_graph.agents.booking import price_of
from egg_graph.agents.chat_role import BRIEF_TOKENS
from egg_graph.agents.coder import CODER
from egg_graph.agents.debugger import DEBUGGER
from egg_graph.agents.endpoint import model_name
from egg_graph.agents.models import load_chat_model
from egg_graph.agents.prompts import Prompts
from egg_graph.agents.requests import TRIES, ModelChannel
from egg_graph.agents.schema_model import SchemaModel
from egg_graph.calls import arun, run
from egg_graph.knowledge import Price
from egg_graph.schema import ROLES, Analysis, BadInput, Brief, Diagnosis, Draft

Model = Runnable[Any, Any] | str
"""A LangChain chat model (or a runnable made of one: `.bind(...)`, `.with_fallbacks(...)`), or a name."""

_SCHEMAS: dict[str, Mapping[str, Any] | None] = {role.name: role.schema for role in (ANALYST, CODER, DEBUGGER)}


class ModelTeam:
    """Analyst, coder and debugger played by chat models (implements `egg_graph.team.Team`).

    Each answer takes one prompt, rendered from the brief alone, and at most one re-ask with the reason. It is streamed.
    A request that finds the endpoint busy, broken or silent is sent again; the answer's cost holds every request. An
    answer that stays unreadable raises nothing: it becomes a draft with a `problem`, an analysis that is not worth
    optimizing, or a diagnosis made from the evaluator's finding. In traces every call carries the tags "egg" and the
    role, a name, and `role`, `stage`, `attempt` and `mode` as metadata.
    """

    calls_models = True

    def __init__(
        self,
        models: Model | Mapping[str, Model | Sequence[Model]],
        *,
        prompts: str | Path | None = None,
        name: str | None = None,
        timeout: float | None = None,
        tries: int = TRIES,
        brief_tokens: int = BRIEF_TOKENS,
    ) -> None:
        """
        Args:
            models: one chat model (or its name, see `load_chat_model`) for all roles, or a mapping from each role to
                one; of the coder also to several, to which drafts that are written side by side are dealt in turn.
            prompts: a folder with templates of your own; each takes the place of the shipped one of its name.
            name: the author that candidates carry; the coder's model by default.
            timeout: seconds of silence after which a request counts as failed; by default the run's `Context.timeout`.
            tries: most requests for one answer, where the endpoint is busy, broken or silent.
            brief_tokens: most tokens of a prompt, as estimated. Where it is more, the parts that its template marks
                are left out in their order, and the prompt says which.

        Raises:
            BadInput: if a role is missing or unknown, or a model cannot be loaded by its name.
        """
        loaded, coders = _by_role(models)
        asked = {role: SchemaModel(model, _SCHEMAS.get(role)) for role, model in loaded.items()}
        self._channels = {role: ModelChannel(one, timeout, tries) for role, one in asked.items()}
        self._make_wide_analyst = lambda: ModelChannel(SchemaModel(loaded["analyst"], WIDE_SCHEMA), timeout, tries)
        others = [ModelChannel(SchemaModel(model), timeout, tries) for model in coders[1:]]
        self._coders = [self._channels["coder"], *others]
        self.coders = len(coders)
        self._prompts = Prompts(prompts)
        self._limit = brief_tokens
        self.name = name or model_name(loaded["coder"])

    def prices(self, folder: str | None = None) -> dict[str, tuple[str, Price | None]]:
        """The model of each role, and its price; None where the price is not known. Further coders are `coder 2` ...

        Args:
            folder: a folder with a `prices.toml` of the user's own.

        Raises:
            BadInput: if that file is wrong.
        """
        models = {role: channel.model for role, channel in self._channels.items()}
        models |= {f"coder {number}": channel.model for number, channel in enumerate(self._coders[1:], start=2)}
        return {role: (model_name(model), price_of(model, folder)) for role, model in models.items()}

    def analyze(self, brief: Brief) -> Analysis:
        """See `egg_graph.team.Team`. Raises `ModelRefused` or `ModelUnavailable` for failures of the endpoint."""
        return run(ANALYST.answer(self._analyst(brief), self._prompts, brief, self._limit))

    async def aanalyze(self, brief: Brief) -> Analysis:
        """`analyze` in an event loop."""
        return await arun(ANALYST.answer(self._analyst(brief), self._prompts, brief, self._limit))

    def write(self, brief: Brief) -> Draft:
        """See `egg_graph.team.Team`. Raises `ModelRefused` or `ModelUnavailable` for failures of the endpoint."""
        return run(self._write(brief))

    async def awrite(self, brief: Brief) -> Draft:
        """`write` in an event loop."""
        return await arun(self._write(brief))

    @cached_property
    def _wide_analyst(self) -> ModelChannel:
        return self._make_wide_analyst()

    def _analyst(self, brief: Brief) -> ModelChannel:
        """Where several coders draft side by side, the analyst is asked for several plans."""
        return self._wide_analyst if brief.drafts > 1 else self._channels["analyst"]

    async def _write(self, brief: Brief) -> Draft:
        channel = self._coder(brief)
        draft = await CODER.answer(channel, self._prompts, brief, self._limit)
        return draft if len(self._coders) == 1 else draft.model_copy(update={"author": model_name(channel.model)})

    def _coder(self, brief: Brief) -> ModelChannel:
        """Who writes: drafts are dealt to the coders in turn, and a kernel is repaired by its author."""
        if brief.drafts > 1:
            return self._coders[(brief.draft - 1) % len(self._coders)]
        author = brief.kernel.author if brief.mode == "repair" and brief.kernel is not None else None
        return next((channel for channel in self._coders if model_name(channel.model) == author), self._coders[0])

    def debug(self, brief: Brief) -> Diagnosis:
        """See `egg_graph.team.Team`. Raises `ModelRefused` or `ModelUnavailable` for failures of the endpoint."""
        return run(DEBUGGER.answer(self._channels["debugger"], self._prompts, brief, self._limit))

    async def adebug(self, brief: Brief) -> Diagnosis:
        """`debug` in an event loop."""
        return await arun(DEBUGGER.answer(self._channels["debugger"], self._prompts, brief, self._limit))


def _by_role(
    models: Model | Mapping[str, Model | Sequence[Model]],
) -> tuple[dict[str, Runnable[Any, Any]], list[Runnable[Any, Any]]]:
    """The model of each role, and all models of the coder, of which the first is the one of its role."""
    if isinstance(models, (str, Runnable)):
        one = _loaded(models)
        return dict.fromkeys(ROLES, one), [one]
    if not isinstance(models, Mapping):
        raise BadInput(
            f"model: a {type(models).__name__}; give a chat model, its name, or a mapping from role to model"
        )
    if several := [role for role in ROLES if role != "coder" and isinstance(models.get(role), list | tuple)]:
        raise BadInput(f"model: several for the {several[0]}; only the coder may have more than one")
    unknown, missing = sorted(set(models) - set(ROLES)), [role for role in ROLES if models.get(role) in (None, [], ())]
    if unknown or missing:
        wrong = f"unknown role {unknown[0]!r}" if unknown else f"no model for the {missing[0]}"
        raise BadInput(f"model: {wrong}; map each of {', '.join(ROLES)} to a chat model or a name")
    loaded: dict[str, list[Runnable[Any, Any]]] = {}
    for role in ROLES:
        given = models[role]
        loaded[role] = [_loaded(one) for one in (given if isinstance(given, list | tuple) else [given])]  # type: ignore[arg-type]
    return {role: each[0] for role, each in loaded.items()}, loaded["coder"]


def _loaded(model: Model) -> Runnable[Any, Any]:
    if isinstance(model, str):
        return load_chat_model(model)
    if not isinstance(model, Runnable):
        raise BadInput(f"model: a {type(model).__name__}; give a LangChain chat model or its name")
    own = "stream_chunk_timeout"
    if isinstance(model, BaseChatModel) and hasattr(model, own) and own not in model.model_fields_set:
        return model.model_copy(update={own: None})  # our own watch for silence takes its place
    return model
