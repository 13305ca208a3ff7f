"""What a judge keeps of the tasks it meets: that of those met last, as far as memory goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar


class Held(Protocol):
    """Something that takes memory."""

    @property
    def nbytes(self) -> int: ...


T = TypeVar("T", bound=Held)


class TaskCache(Generic[T]):
    """Things by task. A new one makes it forget those not asked for longest, if all hold too much.

    Args:
        most_bytes: what all may hold together when a new one comes.
        forget: called with the key of each that is forgotten for it.
        cramped: whether there is little memory left, whoever holds it: then a new one makes it forget all others.
    """

    def __init__(
        self,
        most_bytes: float,
        forget: Callable[[str], object] = lambda _: None,
        cramped: Callable[[], bool] = lambda: False,
    ) -> None:
        self.most_bytes, self.forget, self.cramped = most_bytes, forget, cramped
        self._known: dict[str, T] = {}

    def of(self, key: str, make: Callable[[], T]) -> T:
        """That of a task, made at first sight."""
        thing = self._known.pop(key, None)
        if thing is None:
            while self._known and (self._nbytes > self.most_bytes or self.cramped()):
                oldest = next(iter(self._known))
                self.drop(oldest)
                self.forget(oldest)
            thing = make()
        self._known[key] = thing
        return thing

    @property
    def _nbytes(self) -> int:
        return sum(known.nbytes for known in self._known.values())

    def drop(self, key: str) -> None:
        """Forget one, if there is one."""
        self._known.pop(key, None)

    def clear(self) -> None:
        """Forget all."""
        self._known.clear()
