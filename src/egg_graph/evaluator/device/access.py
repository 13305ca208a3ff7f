"""One judge's turns on one GPU, and its part of the GPU's memory.

While one judge measures, nobody else uses the GPU; answers are computed and kernels are compiled side by side. A judge
that computes for long calls `give_way` between two steps: a measurement that waits goes first, so that it waits for one
step of each of the others and not for all of them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache

from egg_graph.block_values import set_in_block
from egg_graph.evaluator.device.lease import Lease, SharedTurn
from egg_graph.evaluator.device.reservation import Reservations
from egg_graph.evaluator.progress import report_progress
from egg_graph.evaluator.spending import spending_on

Paused = Callable[[], AbstractContextManager[object]]
"""Makes a block in which what runs for this judge on the GPU is stopped."""
RESERVABLE_PART = 0.85
"""Part of a GPU's memory that judges may reserve; contexts and what idle judges keep take the rest."""
BUSY_PATIENCE, BUSY_PAUSE = 150.0, 3.0
"""Seconds for which a measurement waits for a GPU that is busy although nobody else has a turn, and for which others
get theirs back each time. What a stopped process has queued may be without end, and only its own judge can end it."""
DRAIN_SECONDS = 1.0
"""Seconds in which usual work that stopped processes have queued is done."""
_GIVE_WAY: ContextVar[Callable[[Paused], None] | None] = ContextVar("egg_graph_give_way", default=None)
MORE_ROOM_FOLLOWS: ContextVar[Callable[[], bool]] = ContextVar("egg_graph_more_room_follows", default=lambda: False)
"""Whether what runs out of GPU memory now is done again in more of it: others may hold what it lacks."""


def give_way(paused: Paused = nullcontext) -> None:
    """Let a measurement that waits for the GPU go first; nothing happens outside of `GpuAccess.computing`.

    Args:
        paused: stops what runs for this judge on the GPU; for a caller for whom nothing runs, nothing.
    """
    if (yield_turn := _GIVE_WAY.get()) is not None:
        yield_turn(paused)


@dataclass
class GpuAccess:
    """One judge's turns on one GPU.

    Args:
        lease: the GPU's lease; None where there is no GPU, and nothing to wait for.
        reservations: of the GPU's memory; None where none is reserved.
        busy: whether something runs on the GPU although nobody else has a turn; None does not look.
    """

    lease: Lease | None = None
    reservations: Reservations | None = None
    busy: Callable[[], bool] | None = None
    alone: bool = False
    """Whether the judge holds the GPU alone; `computing`, `measuring` and `reserved` then wait for nothing."""
    waited: float = 0.0
    """Total seconds spent waiting for others."""
    wanted: float = 0.0
    """Memory that judging the task at hand at full shape takes, unless it is reserved already [bytes]."""
    crowded: bool = False
    """Whether others were seen on the GPU while answers were computed."""
    _sharing: SharedTurn | None = None
    """The turn of `computing`, while it is held."""
    _stays_busy: bool = False
    """Whether the GPU was busy for all of `BUSY_PATIENCE`, and nobody saw it idle since."""

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Share the GPU with others who compute answers, while nobody measures; `give_way` lets those go first."""
        with self._holding_shared() as turn:
            self._sharing = turn
            self._look_for_others()
            try:
                with set_in_block(_GIVE_WAY, None if turn is None else self._give_way):
                    yield
            finally:
                self._look_for_others()
                self._sharing = None

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """Hold the GPU alone, to time something; inside `computing` in place of sharing it."""
        with self.away(), self._holding_idle(), self._marked_alone():
            yield

    @contextmanager
    def away(self) -> Iterator[None]:
        """Let others measure for a block that does not use the GPU; `computing` and `measuring` work inside."""
        sharing, self._sharing = self._sharing, None
        if sharing is not None:
            sharing.let_go()
        try:
            yield
        finally:
            if sharing is not None:
                self._take_again(sharing)

    @contextmanager
    def alone_throughout(self) -> Iterator[None]:
        """Hold the GPU alone for a whole evaluation, answers included: to repeat what others may have disturbed.

        No other judge has memory reserved meanwhile; call it where this one has none.
        """
        with self.reserved(float("inf")), ExitStack() as turn:
            if self.lease is not None and not self.alone:
                with self._waiting():
                    turn.enter_context(self.lease.in_line())
                    turn.enter_context(self.lease.alone())
            with self._marked_alone():
                yield

    def give_back(self) -> None:
        """Give memory that PyTorch keeps for reuse back to the GPU, while nobody measures; outside of `computing`.

        The GPU changes its page tables then, and whatever runs on it is slower meanwhile.
        """
        import torch

        with self.computing():
            torch.cuda.empty_cache()

    @property
    def room(self) -> float:
        """GPU memory that other judges have not reserved [bytes]."""
        return float("inf") if self.reservations is None else self.reservations.room

    @contextmanager
    def reserved(self, nbytes: float) -> Iterator[None]:
        """Reserve memory of the GPU for the block [bytes], as soon as other judges leave so much."""
        if self.reservations is None or self.alone:
            yield
            return
        with ExitStack() as stack:
            with self._waiting():
                stack.enter_context(self.reservations.reserved(nbytes))
            yield

    @contextmanager
    def at_full_shape(self) -> Iterator[None]:
        """Reserve what the full shape of the task at hand takes, once however deep; others may measure until it is
        there."""
        wanted, self.wanted = self.wanted, 0.0
        try:
            with ExitStack() as stack:
                if wanted:
                    with self.away():
                        stack.enter_context(self.reserved(wanted))
                yield
        finally:
            self.wanted = wanted

    @contextmanager
    def _holding_idle(self) -> Iterator[None]:
        """Hold the GPU alone once nothing runs on it any more; after `BUSY_PATIENCE`, or beside a stranger, as it is.

        One measurement after the other tries, so that the others have their turns most of the time.
        """
        if self.lease is None or self.alone:
            yield
            return
        until = time.monotonic() + (0.0 if self._stays_busy else BUSY_PATIENCE)
        with ExitStack() as line:
            with self._waiting():
                line.enter_context(self.lease.in_line())
            while True:
                with ExitStack() as turn:
                    with self._waiting():
                        turn.enter_context(self.lease.alone())
                    self._stays_busy = self.busy is not None and self.busy()
                    if not self._stays_busy or time.monotonic() >= until or not self._others_at_work:
                        yield
                        return
                report_progress("waits for a kernel of another judge to end")
                with self._waiting():
                    time.sleep(BUSY_PAUSE)

    @property
    def _others_at_work(self) -> bool:
        """Whether other judges may have left something running, rather than a stranger."""
        return self.reservations is None or self.reservations.others

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        """Count the time of the block as spent waiting for others."""
        began = time.monotonic()
        with spending_on("waiting"):
            yield
        self.waited += time.monotonic() - began

    @contextmanager
    def _marked_alone(self) -> Iterator[None]:
        """Let `computing`, `measuring` and `reserved` wait for nothing inside the block."""
        before, self.alone = self.alone, True
        try:
            yield
        finally:
            self.alone = before

    @contextmanager
    def _holding_shared(self) -> Iterator[SharedTurn | None]:
        if self.lease is None or self.alone:
            yield None
            return
        with ExitStack() as stack:
            with self._waiting():
                turn = stack.enter_context(self.lease.shared())
            yield turn

    def _give_way(self, paused: Paused) -> None:
        sharing = self._sharing
        if sharing is None or not sharing.wanted:
            return
        with paused():
            sharing.let_go()
            self._take_again(sharing)

    def _take_again(self, turn: SharedTurn) -> None:
        with self._waiting():
            turn.take()
        self._sharing = turn
        self._look_for_others()

    def _look_for_others(self) -> None:
        if self.lease is not None and not self.alone:
            self.crowded |= any(holder != os.getpid() for holder in self.lease.holders())


def access_to(device: str) -> GpuAccess:
    """Return access to PyTorch's first GPU if `device` is `"gpu"`; else access that waits for nothing."""
    import torch

    if device != "gpu":
        return GpuAccess()
    from egg_graph.evaluator.device.driver import CudaDriver
    from egg_graph.evaluator.device.interference import wait_until_idle

    @cache
    def driver() -> CudaDriver:
        torch.cuda.synchronize()  # a driver needs this process's context
        return CudaDriver()

    def busy() -> bool:
        return bool(wait_until_idle(driver(), DRAIN_SECONDS))

    gpu = torch.cuda.get_device_properties(0)
    lease = Lease(f"GPU-{gpu.uuid}")
    return GpuAccess(lease, Reservations(lease, RESERVABLE_PART * gpu.total_memory), busy)
