"""What a judge keeps of the tasks it meets: that of those met last, as far as memory goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar


class Held(Protocol):
    """Something that takes memory."""

    @property
    def nbytes(self) -> int: ...


T = TypeVar("T", bound=Held)


class Kept(Generic[T]):
    """Things by task. A new one makes it forget those not asked for longest, if all hold too much.

    Args:
        most_bytes: what all may hold together when a new one comes.
        forget: called with the key of each that is forgotten for it.
    """

    def __init__(self, most_bytes: float, forget: Callable[[str], object] = lambda _: None) -> None:
        self.most_bytes, self.forget = most_bytes, forget
        self._known: dict[str, T] = {}

    def of(self, key: str, make: Callable[[], T]) -> T:
        """That of a task, made at first sight."""
        thing = self._known.pop(key, None)
        if thing is None:
            while self._known and sum(known.nbytes for known in self._known.values()) > self.most_bytes:
                oldest = next(iter(self._known))
                self.drop(oldest)
                self.forget(oldest)
            thing = make()
        self._known[key] = thing
        return thing

    def drop(self, key: str) -> None:
        """Forget one, if there is one."""
        self._known.pop(key, None)

    def clear(self) -> None:
        """Forget all."""
        self._known.clear()
