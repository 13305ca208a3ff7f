"""The terms under which a team asks its models, and the log that keeps what it asks: found by whoever asks.

A step of the graph sets the terms, a run the log. Both hold inside a `with` block, for this thread and what it starts.
A team that asks no model needs neither, and outside of a run there is no log.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pydantic import ValidationError

from egg_graph.block_values import set_in_block
from egg_graph.schema import BadInput, ModelRequest, Usage

REQUESTS = "requests"
"""Folder of the requests, in a run's folder."""

DEFAULT_TIMEOUT = 600.0
"""Seconds of silence after which a request counts as failed. Models that reason say nothing for minutes."""


def _never(cost: Usage) -> str:
    return ""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What holds for every request of one step."""

    timeout: float = DEFAULT_TIMEOUT
    """Seconds of silence after which a request counts as failed."""
    knowledge_dir: str | None = None
    """Folder with prices of the user's own."""
    spent: Callable[[Usage], str] = _never
    """Names the budget that is used up when this step has cost so much; an empty text while none is."""


class RequestLog(Protocol):
    """Keeps every request of one run. What it costs is owed until an answer that is returned carries it."""

    folder: Path
    """The run's folder."""

    def keep(self, request: ModelRequest) -> ModelRequest:
        """Keep a request that has ended; return it with its number."""
        ...

    def recall(self, request: ModelRequest) -> ModelRequest | None:
        """The answer to the same prompt that came, and was paid, before the run was stopped; each is returned once.

        Raises:
            ModelRefused: if the run has ended: nothing is to be asked any more.
        """
        ...

    def owed(self, draft: int = 0) -> Usage:
        """What the requests cost since this was last called, or since what the run had booked when it was resumed.

        Args:
            draft: of drafts that are written side by side, the number of the one that asks; the others owe their own.
        """
        ...


_TERMS: ContextVar[Terms | None] = ContextVar("egg_graph_terms", default=None)
_LOG: ContextVar[RequestLog | None] = ContextVar("egg_graph_request_log", default=None)


def terms() -> Terms:
    """The terms that hold here; the defaults outside of a run."""
    return _TERMS.get() or Terms()


def request_log() -> RequestLog | None:
    """The log of the run that asks; None outside of a run that has a folder."""
    return _LOG.get()


def asking_under(new: Terms) -> AbstractContextManager[object]:
    """Let these terms hold inside the block."""
    return set_in_block(_TERMS, new)


def logging_requests(log: RequestLog) -> AbstractContextManager[object]:
    """Let this log keep every request inside the block."""
    return set_in_block(_LOG, log)


def read_requests(folder: Path) -> list[ModelRequest]:
    """The requests that a run kept, in order; none where there is no such folder.

    Args:
        folder: the run's folder, or the folder `requests` in it.

    Raises:
        BadInput: if a file is damaged.
    """
    inner = folder / REQUESTS
    return [_read_request(path) for path in sorted((inner if inner.is_dir() else folder).glob("[0-9]*-*.json"))]


def _read_request(path: Path) -> ModelRequest:
    try:
        return ModelRequest.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: cannot be read: {error}") from error
    except ValidationError as error:
        raise BadInput(f"{path}: no request of a run, or a damaged one") from error
