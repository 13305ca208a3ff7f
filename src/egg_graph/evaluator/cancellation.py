"""Calls of an evaluator that can be cancelled: the asynchronous twins of `baseline`, `evaluate` and `screen`.

A twin makes the ordinary call in a thread. Cancelling it ends, at once, the processes for which that thread waits, and
with them the candidate; the evaluator takes the next call as ever.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

from egg_graph.calls import start_thread
from egg_graph.schema import Baseline, Candidate, Evaluation, KernelTask, Profile, StageName, Trial

T = TypeVar("T")


class Cancellation:
    """One call, and how to end it from another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancelled = False
        self._end: Callable[[], None] | None = None

    def cancel(self) -> bool:
        """End what the call waits for, now or as soon as it begins; false where it does not wait for anything yet."""
        with self._lock:
            self._cancelled = True
            if self._end is not None:
                self._end()
            return self._end is not None

    def check(self) -> None:
        """Raise `asyncio.CancelledError` if the call is cancelled."""
        if self._cancelled:
            raise asyncio.CancelledError

    @contextmanager
    def ending_by(self, end: Callable[[], None]) -> Iterator[None]:
        """A block that waits for something that `end`, called in another thread, ends."""
        with self._lock:
            self.check()
            self._end = end
        try:
            yield
        finally:
            with self._lock:
                self._end = None
        self.check()


_THIS_CALL: ContextVar[Cancellation | None] = ContextVar("this_call", default=None)


def this_call() -> Cancellation:
    """The cancellation of the call that this thread makes; of a call that nobody can cancel where there is none."""
    return _THIS_CALL.get() or Cancellation()


async def cancellable(function: Callable[..., T], *args: Any, **options: Any) -> T:
    """Make a call in a thread. If it is cancelled, end it; a call that still waits for its turn then gives it up."""
    call = Cancellation()

    def work() -> T:
        _THIS_CALL.set(call)
        return function(*args, **options)

    future = start_thread(work)
    try:
        return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        if call.cancel():
            await asyncio.gather(asyncio.wrap_future(future), return_exceptions=True)  # it removes its files
        raise


class _Evaluator(Protocol):
    def baseline(self, task: KernelTask, *, tuned: bool = False) -> Baseline: ...

    def evaluate(
        self, task: KernelTask, candidate: Candidate, *, stage: StageName | None = None, finalist: bool = False
    ) -> Evaluation: ...

    def screen(self, task: KernelTask, candidates: Sequence[Candidate]) -> tuple[Trial, ...]: ...


class _Profiler(Protocol):
    def profile(
        self, task: KernelTask, candidate: Candidate, evaluation: Evaluation, *, stage: StageName | None = None
    ) -> Profile: ...


class AsynchronousTwins:
    """Adds the asynchronous twins to an evaluator. Cancelling one ends the candidate's processes and frees the GPU."""

    async def abaseline(self: _Evaluator, task: KernelTask, *, tuned: bool = False) -> Baseline:
        """`baseline` in an event loop."""
        return await cancellable(self.baseline, task, tuned=tuned)

    async def aevaluate(
        self: _Evaluator,
        task: KernelTask,
        candidate: Candidate,
        *,
        stage: StageName | None = None,
        finalist: bool = False,
    ) -> Evaluation:
        """`evaluate` in an event loop."""
        return await cancellable(self.evaluate, task, candidate, stage=stage, finalist=finalist)

    async def aprofile(
        self: _Profiler,
        task: KernelTask,
        candidate: Candidate,
        evaluation: Evaluation,
        *,
        stage: StageName | None = None,
    ) -> Profile:
        """`profile` in an event loop."""
        return await cancellable(self.profile, task, candidate, evaluation, stage=stage)

    async def ascreen(self: _Evaluator, task: KernelTask, candidates: Sequence[Candidate]) -> tuple[Trial, ...]:
        """`screen` in an event loop."""
        return await cancellable(self.screen, task, candidates)
