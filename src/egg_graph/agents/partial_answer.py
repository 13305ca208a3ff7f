"""An answer as it comes: its pieces, put together, and how much there is of it."""

import time
from functools import cached_property
from typing import Any

from langchain_core.messages import AIMessageChunk
from langchain_core.messages.ai import add_ai_message_chunks

from egg_graph.agents.tokens import estimate_tokens
from egg_graph.evaluator.progress import report_progress
from egg_graph.schema import Usage

_TELL = 0.5
"""Least seconds between two reports."""
_CUT_OFF = frozenset({"length", "max_tokens", "MAX_TOKENS"})
"""Finish reasons by which providers report that an answer hit the output limit."""
TOLD = "egg_usage"
"""Key of a message's metadata under which a model of ours tells the whole cost of its answer."""


class PartialAnswer:
    """The pieces of one answer.

    Attributes:
        text: what has come so far.
    """

    def __init__(self) -> None:
        self.text = ""
        self._pieces: list[Any] = []
        self._told = time.monotonic()

    def add(self, piece: Any) -> None:
        """Take the next piece, and tell how much there is."""
        self._pieces.append(piece)
        self.text += str(piece.text)
        now = time.monotonic()
        if now - self._told >= _TELL:
            self._told = now
            tokens = estimate_tokens(self.text)
            report_progress(f"about {tokens:,} tokens so far" if self.text else "the model thinks")

    @cached_property
    def message(self) -> Any:
        """The whole answer, a LangChain message: for when all its pieces have come."""
        if len(self._pieces) == 1 or not all(isinstance(piece, AIMessageChunk) for piece in self._pieces):
            return self._pieces[-1]
        return add_ai_message_chunks(*self._pieces)

    @property
    def truncated(self) -> bool:
        """True where the provider reports that the answer hit the output limit."""
        meta = self.message.response_metadata
        return bool({meta.get("finish_reason"), meta.get("stop_reason")} & _CUT_OFF)

    @property
    def counted(self) -> Usage | None:
        """The tokens as the provider counted them; None where it told none."""
        message = self.message
        if told := message.response_metadata.get(TOLD):
            return Usage.model_validate(told)
        counted = message.usage_metadata
        if not counted or not (counted.get("input_tokens") or counted.get("output_tokens")):
            return None
        return Usage(
            calls=1,
            input_tokens=counted.get("input_tokens", 0),
            output_tokens=counted.get("output_tokens", 0),
            cached_tokens=(counted.get("input_token_details") or {}).get("cache_read") or 0,
        )
