"""A chat model that gives the answers of an earlier run again, and no others."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import PrivateAttr

from egg_graph.agents.partial_answer import TOLD
from egg_graph.schema import BadInput, Message, ModelRequest, Usage
from egg_graph.schema.remaining import without_remaining

_ROLES = {"system": "system", "human": "user", "ai": "assistant"}


class ReplayModel(BaseChatModel):
    """Answers each prompt as it was answered in a run whose folder kept every request.

    A prompt that was asked twice gets its two answers in order. An answer costs what it cost then, together with the
    requests for it that failed. A prompt that was never asked raises `BadInput`, for nothing is made up.

        team = ModelTeam("replay:runs/20261123-120000-softmax-1a2b")
    """

    requests: list[ModelRequest]
    """Every request of the run, in order."""
    keeps_time: bool = True
    _answers: dict[str, list[tuple[ModelRequest, Usage]]] = PrivateAttr(default_factory=dict)

    def model_post_init(self, context: Any, /) -> None:
        """Sort the answers by their prompts."""
        super().model_post_init(context)
        failed: dict[str, Usage] = defaultdict(Usage)
        for request in self.requests:
            key = self.key(request)
            failed[key] += request.usage
            if request.outcome == "answered":
                self._answers.setdefault(key, []).append((request, failed.pop(key)))

    def key(self, request: ModelRequest) -> str:
        """What an answer is found by: the whole prompt, and who asks."""
        return request.key

    @property
    def _llm_type(self) -> str:
        return "replay"

    @property
    def model_name(self) -> str:
        """The name of the coder's model then, which the kernels carry as their author."""
        models = {request.role: request.model for request in self.requests}
        return models.get("coder") or next(iter(models.values()), "replay")

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        told = (run_manager.metadata if run_manager is not None else None) or {}
        prompt = tuple(Message(role=_ROLES[one.type], text=str(one.text)) for one in messages)  # type: ignore[arg-type]
        asked = ModelRequest(
            role=told.get("role", "coder"),
            stage=told.get("stage", "algorithmic_structure"),
            attempt=told.get("attempt", 0),
            mode=told.get("mode", "seed"),
            model=self.model_name,
            prompt=prompt,
        )
        if not (waiting := self._answers.get(self.key(asked))):
            raise BadInput(_miss(asked, self.requests))
        answer, cost = waiting.pop(0)
        meta = {TOLD: cost.model_dump(), "finish_reason": "length" if answer.truncated else "stop"}
        return ChatResult(generations=[ChatGeneration(message=AIMessage(answer.answer, response_metadata=meta))])


def _miss(asked: ModelRequest, requests: Sequence[ModelRequest]) -> str:
    """One line: what is asked that was not, and where the prompt differs from the one that was asked in its place."""
    where = f"attempt {asked.attempt} in {asked.stage} ({asked.mode})"
    line = f"the replay asks what the run did not: the {asked.role}, {where}"
    place = asked.role, asked.stage, asked.attempt
    same = [one for one in requests if (one.role, one.stage, one.attempt) == place]
    if not same:
        return f"{line}; the run asked nothing there"
    if any(request.key == asked.key for request in same):
        return f"{line}; the run asked this prompt, but less often"
    texts = (without_remaining("\n".join(m.text for m in request.prompt)) for request in (same[-1], asked))
    then, now = (text.splitlines() for text in texts)
    for number, (before, here) in enumerate(zip_longest(then, now, fillvalue=""), start=1):
        if before != here:
            return f"{line}; its prompt was {before[:120]!r} in line {number}, and is {here[:120]!r}"
    return f"{line}; its prompt was made of other messages"
