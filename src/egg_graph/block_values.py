"""A context variable that has a value of its own inside a block."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def set_in_block(variable: ContextVar[T], value: T) -> Iterator[T]:
    """Give a variable, which has a default, this value inside the block; yield the value that it has outside of it."""
    outer = variable.get()
    variable.set(value)
    try:
        yield outer
    finally:
        variable.set(outer)  # a token would not do: a coroutine may be closed in another context than it ran in
