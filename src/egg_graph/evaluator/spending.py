"""Where the wall time of one answer goes, and the peak memory: noted by whoever does the work, while it is done.

`accounted` opens an account for a thread; inside it `spending_on` says what the time of a block is spent on. Of nested
blocks the innermost counts, so that all parts add up to the wall time. Threads of a pool have no account: who waits for
them says what for. Where no account is open, nothing is noted.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from egg_graph.block_values import set_in_block
from egg_graph.schema import Memory, Part, Spending


class Account:
    """What has been noted so far.

    Args:
        rest: the part of time that no block inside claims.
    """

    def __init__(self, rest: Part) -> None:
        self._seconds: dict[Part, float] = {}
        self._peaks: dict[str, float] = {}
        self._parts = [rest]
        self._since = time.monotonic()

    def begin(self, part: Part) -> None:
        """From now on time is spent on `part`."""
        self._charge()
        self._parts.append(part)

    def end(self) -> None:
        """From now on time is spent on what it was spent on before."""
        self._charge()
        self._parts.pop()

    def shift(self, to: Part, seconds: float) -> None:
        """Count so many seconds of the present part, or all that it has, as another one's."""
        self._charge()
        present = self._parts[-1]
        moved = min(max(0.0, seconds), self._seconds.get(present, 0.0))
        self._add(present, -moved)
        self._add(to, moved)

    def add(self, part: Part, seconds: float) -> None:
        """Count so many seconds from before the account was opened."""
        self._add(part, seconds)

    def peak(self, process: str, nbytes: float) -> None:
        """Note that `judge`, `candidate` or `baseline` held this much GPU memory [byte]."""
        self._peaks[process] = max(self._peaks.get(process, 0.0), nbytes)

    def forget_peak(self, process: str) -> None:
        """Say that the peak of a process is not known after all."""
        self._peaks.pop(process, None)

    def spending(self) -> Spending:
        """All that was noted until now."""
        self._charge()
        memory = Memory(**{f"{process}_bytes": nbytes for process, nbytes in self._peaks.items()})
        return Spending(seconds={part: round(took, 6) for part, took in self._seconds.items()}, memory=memory)

    def _charge(self) -> None:
        now = time.monotonic()
        self._add(self._parts[-1], now - self._since)
        self._since = now

    def _add(self, part: Part, seconds: float) -> None:
        self._seconds[part] = self._seconds.get(part, 0.0) + seconds


_ACCOUNT: ContextVar[Account | None] = ContextVar("egg_graph_account", default=None)


@contextmanager
def accounted(rest: Part = "other") -> Iterator[Account]:
    """Open an account for the block; one that was open before notes nothing meanwhile."""
    account = Account(rest)
    with set_in_block(_ACCOUNT, account):
        yield account


@contextmanager
def spending_on(part: Part) -> Iterator[None]:
    """Count the wall time of the block as `part`, less what blocks inside it claim."""
    account = _ACCOUNT.get()
    if account is None:
        yield
        return
    account.begin(part)
    try:
        yield
    finally:
        account.end()


def spending_so_far() -> Spending:
    """What the open account has noted until now; nothing where none is open."""
    account = _ACCOUNT.get()
    return Spending() if account is None else account.spending()


def shift_time(to: Part, seconds: float) -> None:
    """Count so many seconds of what is being done as another part's; see `Account.shift`."""
    if (account := _ACCOUNT.get()) is not None:
        account.shift(to, seconds)


def note_peak(process: str, nbytes: float) -> None:
    """Note the GPU memory that a process holds [byte]; see `Account.peak`."""
    if (account := _ACCOUNT.get()) is not None:
        account.peak(process, nbytes)


def forget_peak(process: str) -> None:
    """See `Account.forget_peak`."""
    if (account := _ACCOUNT.get()) is not None:
        account.forget_peak(process)
