"""A time limit on work in this process's main thread."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Overdue(BaseException):
    """The time is over. No `Exception`, so that nothing on the way takes it for a failure of what it was doing."""


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raise Overdue in the block after so many seconds. It interrupts Python, not one long call of C code."""

    def ring(number: int, frame: Any) -> None:
        raise Overdue

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
