"""One request to a model: what was asked, what came, and what it cost."""

import hashlib
import json
from typing import Literal

from pydantic import Field

from egg_graph.schema.answers import Role, Usage
from egg_graph.schema.base import Value, is_empty
from egg_graph.schema.candidate import Mode, StageName
from egg_graph.schema.remaining import without_remaining


class Message(Value):
    """One message of a prompt."""

    role: Literal["system", "user", "assistant"]
    text: str


class ModelRequest(Value):
    """One request to a model, as it is kept in a run's folder."""

    role: Role
    stage: StageName
    attempt: int
    """Number of the attempt in work."""
    mode: Mode
    model: str
    """Name of the model."""
    prompt: tuple[Message, ...]
    number: int = 0
    """Number of the request in the run, from 1; 0 where nobody counts."""
    sent: str = ""
    """When it was sent, ISO 8601, UTC."""
    outcome: Literal["answered", "failed", "stopped"] = "answered"
    """`stopped`: the run ended before the answer did."""
    reason: str = ""
    """Why it brought no answer."""
    again_in: float | None = None
    """Seconds after which a request that failed is sent again; None where it is not."""
    answer: str = ""
    """The raw answer; of a request that failed, what had come of it."""
    draft: int = Field(default=0, exclude_if=is_empty)
    """Which of the drafts that are written side by side it is for, from 1; 0 where one coder writes alone."""
    truncated: bool = False
    """True where the provider says that the answer hit the output limit."""
    usage: Usage = Usage()

    @property
    def key(self) -> str:
        """SHA-256 of who asks and of the whole prompt: two requests with one key ask the same.

        What is left of the budgets does not count: the time is another one whenever a run is replayed or goes on, and
        the others are where a budget was raised.
        """
        asked = [self.role, *([message.role, without_remaining(message.text)] for message in self.prompt)]
        return hashlib.sha256(json.dumps(asked).encode()).hexdigest()
