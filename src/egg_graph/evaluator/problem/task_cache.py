"""A cache of values by task, with a memory limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar


class HasNbytes(Protocol):
    """A value that occupies memory."""

    @property
    def nbytes(self) -> int: ...


T = TypeVar("T", bound=HasNbytes)


class TaskCache(Generic[T]):
    """Values by task. Before a new value is made, the least recently used ones are evicted while memory is short.

    Args:
        limit_bytes: evict while the cached values together hold more than this.
        on_evict: called with the key of each evicted value.
        memory_is_short: whether little memory is left, whoever holds it. While it is, evict every other value.
    """

    def __init__(
        self,
        limit_bytes: float,
        on_evict: Callable[[str], object] = lambda _: None,
        memory_is_short: Callable[[], bool] = lambda: False,
    ) -> None:
        self.limit_bytes, self.on_evict, self.memory_is_short = limit_bytes, on_evict, memory_is_short
        self._values: dict[str, T] = {}

    def get_or_make(self, key: str, make: Callable[[], T]) -> T:
        """The cached value of a task, made if there is none."""
        value = self._values.pop(key, None)
        if value is None:
            while self._values and (self._nbytes > self.limit_bytes or self.memory_is_short()):
                oldest = next(iter(self._values))
                self.drop(oldest)
                self.on_evict(oldest)
            value = make()
        self._values[key] = value
        return value

    @property
    def _nbytes(self) -> int:
        return sum(value.nbytes for value in self._values.values())

    def drop(self, key: str) -> None:
        """Remove one value, if there is one, without calling `on_evict`."""
        self._values.pop(key, None)

    def clear(self) -> None:
        """Remove all values without calling `on_evict`."""
        self._values.clear()
