"""What an evaluator or a team is doing, told while it works.

It calls `report_progress`; whoever waits for its answer hears it inside `hear_progress`. One that reports nothing is as
good as any other: the graph then says how long it has been at work.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import wraps
from typing import ParamSpec, TypeVar

from egg_graph.block_values import set_in_block
from egg_graph.schema import ModelRequest, Trial
from egg_graph.schema.base import Value

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


class Progress(Value):
    """One report."""

    doing: str = ""
    """What is being done, in a few words; empty where a configuration is done."""
    number: int | None = None
    """Which configuration of a sweep, from 0, in the order in which they were given; None outside of a sweep."""
    trial: Trial | None = None
    """What screening that configuration came to; None while it is at work."""
    request: ModelRequest | None = None
    """A request to a model that has ended; None in every other report."""


Listener = Callable[[Progress], None]
_LISTENER: ContextVar[Listener | None] = ContextVar("egg_graph_progress", default=None)


def report_progress(
    doing: str = "", *, number: int | None = None, trial: Trial | None = None, request: ModelRequest | None = None
) -> None:
    """Tell whoever listens; nothing happens where nobody does. The arguments are the fields of `Progress`."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(Progress(doing=doing, number=number, trial=trial, request=request))


def hear_progress(listener: Listener | None) -> AbstractContextManager[Listener | None]:
    """Call `listener` with every report of this thread inside the block; yield the listener from outside of it."""
    return set_in_block(_LISTENER, listener)


def heard_here(function: Callable[Arguments, Answer]) -> Callable[Arguments, Answer]:
    """The function, to be called in another thread, with its reports heard by this thread's listener."""
    listener = _LISTENER.get()

    @wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Answer:
        with hear_progress(listener):
            return function(*args, **kwargs)

    return call
