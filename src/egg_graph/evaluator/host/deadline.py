"""A time limit on work in this process's main thread."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Overdue(BaseException):
    """The time limit has passed. It is no `Exception`, so that `except Exception` on the way does not catch it."""


@contextmanager
def deadline(seconds: float, error: BaseException | type[BaseException] = Overdue) -> Iterator[None]:
    """Raise an error in the block after so many seconds. A long call of C code is interrupted only when it returns."""

    def ring(number: int, frame: Any) -> None:
        raise error

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
