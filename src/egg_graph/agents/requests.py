"""One question to a model: asked again where that may help, and every request booked."""

import asyncio
import datetime
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

from langchain_core.runnables import Runnable, RunnableConfig

from egg_graph.agents.booking import book, cost_of, price_of
from egg_graph.agents.endpoint import endpoint_failure
from egg_graph.agents.parsing import Reply
from egg_graph.agents.partial_answer import PartialAnswer
from egg_graph.agents.schema_model import WITHOUT_SCHEMA, SchemaModel
from egg_graph.agents.streaming import receive
from egg_graph.calls import Call
from egg_graph.model_requests import request_log, terms
from egg_graph.schema import (
    AnswerPending,
    EggError,
    InfrastructureError,
    ModelRefused,
    ModelRequest,
    ModelUnavailable,
    Usage,
)

TRIES = 4
"""Most requests for one answer."""
FIRST_WAIT, GROWTH, LONGEST_WAIT = 1.0, 3.0, 60.0
"""Seconds before the second request, how much longer each further wait is, and most seconds that an endpoint may ask
for."""


class BudgetSpent(Exception):
    """Raised where a request failed and no budget is left to send another one.

    Attributes:
        budget: the budget that is used up.
        cost: what the requests cost that were sent.
    """

    def __init__(self, problem: str, budget: str, cost: Usage) -> None:
        super().__init__(f"{problem}; not asked again: {budget}")
        self.budget = budget
        self.cost = cost


class Answered(NamedTuple):
    """What one question came to."""

    reply: Reply
    cost: Usage
    """Of all requests for it; of an answer that came before the run was stopped, what it cost then."""
    mended: tuple[str, ...] = ()
    """What it took to get it, one line each."""


@dataclass(frozen=True)
class ModelChannel:
    """The way to one model.

    Args:
        asked: the model, as the role asks it.
        timeout: seconds of silence after which a request counts as failed; None for those of the run.
        tries: most requests for one answer.
    """

    asked: SchemaModel
    timeout: float | None = None
    tries: int = TRIES

    @property
    def model(self) -> Runnable[Any, Any]:
        """What the next question goes to."""
        return self.asked.model

    async def ask(self, question: ModelRequest, config: RunnableConfig, before: Usage) -> Answered:
        """Send the prompt of `question`, and again where the endpoint is busy, broken or silent.

        Where it refuses the JSON schema, the prompt is sent again in words, which counts for none of the tries. An
        answer that came before the run was stopped is not asked for again.

        Args:
            question: who asks, and the prompt.
            config: of every request.
            before: what the step that asks has spent already.

        Raises:
            BadInput: if the user's own prices are wrong.
            ModelRefused: if the endpoint rejects the request, so that asking again would change nothing.
            ModelUnavailable: if every request failed.
            BudgetSpent: if a request failed, and a budget forbids another one.
        """
        log, cost, number = request_log(), Usage(), 1
        mended: tuple[str, ...] = ()
        if log is not None and (known := log.recall(question)):
            return Answered(Reply(text=known.answer, truncated=known.truncated), known.usage)
        while True:
            request, failure = await self._send(question, config, number)
            cost += request.usage
            if failure is None:
                return Answered(Reply(text=request.answer, truncated=request.truncated), cost, mended)
            if request.again_in is None:
                times = f" (asked {number} times)" if number > 1 else ""
                raise ModelUnavailable(f"{failure}{times}") from failure
            if budget := terms().spent(before + cost):
                raise BudgetSpent(str(failure), budget, cost) from failure
            if isinstance(failure, ModelRefused):
                mended = (f"{WITHOUT_SCHEMA}: {failure}",)
            else:
                number += 1
            await Call(time.sleep, request.again_in, twin=asyncio.sleep)

    async def _send(
        self, question: ModelRequest, config: RunnableConfig, number: int
    ) -> tuple[ModelRequest, EggError | None]:
        """Send one request; return it as it was booked, and why it failed where another one may not.

        Args:
            number: which of the tries it is, from 1.

        Raises:
            AnswerPending: if whoever answers files has not done so yet; nothing is booked.
        """
        price = price_of(self.model, terms().knowledge_dir)  # a table that is wrong is told before an answer is paid
        incoming, start = PartialAnswer(), time.monotonic()
        sent = question.model_copy(update={"sent": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")})

        def booked(error: BaseException | None, **told: Any) -> ModelRequest:
            usage = cost_of(question, self.model, price, incoming, start, error)
            return book(sent.model_copy(update={"answer": incoming.text, "usage": usage, **told}))

        try:
            await receive(self.model, config, question.prompt, incoming, self.timeout or terms().timeout)
            return booked(None, truncated=incoming.truncated), None
        except AnswerPending:  # the prompt lies there and is asked once, however often the run is resumed meanwhile
            raise
        except Exception as error:
            failure = endpoint_failure(error, self.model)
            again_in = self._again_in(failure, error, number)
            request = booked(error, outcome="failed", reason=str(failure or error), again_in=again_in)
            if again_in is not None or isinstance(failure, InfrastructureError):
                return request, failure
            if failure is None or failure is error:
                raise
            raise failure from error
        except BaseException as error:
            booked(error, outcome="stopped", reason="the run was stopped")
            raise

    def _again_in(self, failure: EggError | None, error: Exception, number: int) -> float | None:
        """Seconds until a request that failed is sent again; None where it is not. A refused schema is given up."""
        if isinstance(failure, InfrastructureError):
            return _wait(error, number) if number < self.tries else None
        if isinstance(failure, ModelRefused) and self.asked.give_up_schema(failure, error):
            return 0.0
        return None


def _wait(error: Exception, number: int) -> float:
    """Seconds before the next request: what the endpoint asks for, else three times as long as the last."""
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    try:
        return min(float(headers.get("retry-after", "")), LONGEST_WAIT)
    except ValueError:
        return FIRST_WAIT * GROWTH ** (number - 1)
