"""A context variable that has a value of its own inside a block."""

from contextlib import AbstractContextManager
from contextvars import ContextVar
from types import TracebackType
from typing import TypeVar

T = TypeVar("T")


class _Block(AbstractContextManager[T]):
    """A class, because every step of a run enters several, and a generator takes three times as long."""

    def __init__(self, variable: ContextVar[T], value: T) -> None:
        self._variable = variable
        self._value = value

    def __enter__(self) -> T:
        self._outer = self._variable.get()
        self._variable.set(self._value)
        return self._outer

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._variable.set(self._outer)  # a token would not do: a coroutine may be closed in another context


def set_in_block(variable: ContextVar[T], value: T) -> AbstractContextManager[T]:
    """Give a variable, which has a default, this value inside the block; yield the value that it has outside of it."""
    return _Block(variable, value)
