"""One text for synchronous and asynchronous callers.

A coroutine that awaits nothing but a `Call` runs under callers of both kinds: `run` makes each call in place, `arun`
awaits it in the caller's event loop. What is asynchronous is awaited there; what is synchronous runs in a thread.
"""

import asyncio
import concurrent.futures
import contextvars
import inspect
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import cache, cached_property, partial, wraps
from queue import Empty, SimpleQueue
from typing import Any, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Call(Generic[T]):
    """A call that may take long: `answer = await Call(team.write, brief)`.

    Args:
        function: an ordinary function, or an asynchronous one.
        *args, **options: its arguments.
        twin: the asynchronous form of an ordinary function, preferred in an event loop; by default the method whose
            name has an `a` in front, if the object has one (`invoke` and `ainvoke`).
    """

    def __init__(
        self,
        function: Callable[..., T | Awaitable[T]],
        *args: Any,
        twin: Callable[..., Awaitable[T]] | None = None,
        **options: Any,
    ) -> None:
        self._function = function
        self._arguments = args, options
        self._own_twin = twin

    def __await__(self) -> Generator["Call[T]", T, T]:
        return (yield self)

    @cached_property
    def _twin(self) -> Callable[..., T | Awaitable[T]]:
        return self._own_twin or _twin(self._function) or self._function

    @property
    def asynchronous(self) -> bool:
        """Whether it belongs in an event loop; otherwise it may block, and belongs in a thread."""
        return inspect.iscoroutinefunction(self._twin)

    def make(self) -> T:
        """Make the call from synchronous code."""
        args, options = self._arguments
        answer = self._function(*args, **options)
        return finish(answer) if inspect.isawaitable(answer) else answer

    def begin(self) -> T | Awaitable[T]:
        """Make the call where it belongs in asynchronous code: in the event loop if it is `asynchronous`."""
        args, options = self._arguments
        return self._twin(*args, **options)

    async def amake(self) -> T:
        """Make the call in the running event loop, which it never blocks."""
        answer = self.begin() if self.asynchronous else await in_thread(self.begin)
        return await answer if inspect.isawaitable(answer) else answer


def _twin(function: Callable[..., Any]) -> Callable[..., Any] | None:
    owner, name = getattr(function, "__self__", None), getattr(function, "__name__", "")
    twin = getattr(owner, f"a{name}", None)
    return twin if inspect.iscoroutinefunction(twin) else None


@dataclass(frozen=True)
class _End(Generic[T]):
    """The end of a coroutine, and what it returned."""

    value: T


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that awaits `Call`s alone, from synchronous code."""
    resume = partial(work.send, None)
    while not isinstance(step := _advance(resume), _End):
        try:
            resume = partial(work.send, step.make())
        except BaseException as error:  # noqa: BLE001 - it belongs to the coroutine, which may let it pass
            resume = partial(work.throw, error)
    return step.value


async def arun(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that awaits `Call`s alone, from asynchronous code. What it does between them runs in threads.

    All of it, the calls included, has one set of context variables, as it has under `run`.
    """
    inside = _InThreads(work)
    resume: Callable[[], Any] = partial(work.send, None)
    while True:
        working = start_thread(inside.go_on, resume)
        try:
            step = await asyncio.wrap_future(working)
            if isinstance(step, _End):
                return step.value
            resume = await asyncio.create_task(_answer(step, work), context=inside.context)
        except asyncio.CancelledError:
            inside.close_after(working)
            raise


class _InThreads:
    """A coroutine as far as it runs in threads: all of it but the calls that belong in an event loop."""

    def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
        self.context = contextvars.copy_context()
        self._work = work
        self._cancelled = False
        self._suspended: deque[None] = deque()
        """Holds one item while a call is made in the thread; who takes it may resume or close the coroutine."""

    def go_on(self, resume: Callable[[], Any]) -> Any:
        """Resume it until it ends, or needs the event loop; return its end, or the call or the answer to await there.

        If it is cancelled, nobody waits for what is returned.
        """
        while True:
            step = self.context.run(_advance, resume)
            if isinstance(step, _End) or step.asynchronous:
                return step
            self._suspended.append(None)
            if self._cancelled:
                return None
            answer = None
            try:
                answer = self.context.copy().run(step.begin)
                resume = partial(self._work.send, answer)
            except BaseException as error:  # noqa: BLE001 - it belongs to the coroutine, which may let it pass
                resume = partial(self._work.throw, error)
            if not self._take():
                return None
            if inspect.isawaitable(answer):
                return answer

    def close_after(self, working: "concurrent.futures.Future[Any]") -> None:
        """Make no further call, and close the coroutine: now, or when what it does at this moment is done."""
        self._cancelled = True
        if self._take():
            self.context.run(self._work.close)
        else:
            working.add_done_callback(lambda _: self.context.run(self._work.close))

    def _take(self) -> bool:
        try:
            self._suspended.pop()
        except IndexError:
            return False
        return True


async def _answer(step: Any, work: Coroutine[Any, Any, Any]) -> Callable[[], Any]:
    """Await a call, or what one returned; return what resumes the coroutine with the answer or the error."""
    try:
        return partial(work.send, await (step.begin() if isinstance(step, Call) else step))
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # noqa: BLE001 - it belongs to the coroutine, which may let it pass
        return partial(work.throw, error)


def _advance(resume: Callable[[], Any]) -> Any:
    """Resume a coroutine; return its next `Call`, or its end."""
    try:
        return resume()
    except StopIteration as end:
        return _End(end.value)


def start_thread(function: Callable[..., T], *args: Any) -> "concurrent.futures.Future[T]":
    """Run a function in a daemon thread, at once, with the caller's context variables.

    An event loop's own executor has few threads, and loop and interpreter wait for them at their end; nobody waits for
    this one. Threads that have just been left are used again, because a new one costs as much as a short step.
    """
    future: concurrent.futures.Future[T] = concurrent.futures.Future()
    future.set_running_or_notify_cancel()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            future.set_result(context.run(function, *args))
        except StopIteration:
            future.set_exception(RuntimeError(f"{function} raised StopIteration"))  # no future takes that one
        except BaseException as error:  # noqa: BLE001 - whoever waits for the future gets it
            future.set_exception(error)

    try:
        _IDLE.pop().put(work)
    except IndexError:
        threading.Thread(target=_work_on, args=(work,), name="egg-graph", daemon=True).start()
    return future


MOST_IDLE = 4
"""How many threads stay when they have nothing to do."""
IDLE_SECONDS = 1.0
"""For how long they stay."""
_IDLE: deque[SimpleQueue[Callable[[], None]]] = deque()
"""Where each of them waits for work."""
os.register_at_fork(after_in_child=_IDLE.clear)


def _work_on(work: Callable[[], None] | None) -> None:
    """Work, and then do what comes, until nothing comes for a while."""
    here: SimpleQueue[Callable[[], None]] = SimpleQueue()
    while work is not None:
        work()
        work = None  # it holds what it was given
        if len(_IDLE) < MOST_IDLE:
            _IDLE.append(here)
            work = _next_work(here)


def _next_work(here: "SimpleQueue[Callable[[], None]]") -> Callable[[], None] | None:
    try:
        return here.get(timeout=IDLE_SECONDS)
    except Empty:
        try:
            _IDLE.remove(here)
        except ValueError:  # it was found in this moment
            return here.get()
        return None


async def in_thread(function: Callable[..., T], *args: Any) -> T:
    """Run a function in a thread, and wait for it. If the wait is cancelled, the thread is left to end by itself."""
    return await asyncio.wrap_future(start_thread(function, *args))


async def to_its_end(future: "concurrent.futures.Future[T]") -> T:
    """Wait for a future. If the wait is cancelled, it ends only when the future has."""
    waiting = asyncio.wrap_future(future)
    try:
        return await waiting
    except asyncio.CancelledError:
        await asyncio.gather(asyncio.wrap_future(future), return_exceptions=True)
        raise


@asynccontextmanager
async def entered(manager: AbstractContextManager[T]) -> AsyncIterator[T]:
    """Enter and leave a context manager in threads, so that the event loop never waits for it."""
    entering = start_thread(manager.__enter__)
    try:
        value = await to_its_end(entering)
    except asyncio.CancelledError:
        if entering.exception() is None:
            await to_its_end(start_thread(manager.__exit__, None, None, None))
        raise
    try:
        yield value
    except BaseException as error:
        if not await to_its_end(start_thread(manager.__exit__, type(error), error, error.__traceback__)):
            raise
    else:
        await to_its_end(start_thread(manager.__exit__, None, None, None))


def finish(work: Awaitable[T]) -> T:
    """Wait for something asynchronous from synchronous code, even inside a running event loop (a notebook).

    It runs in one event loop for all such calls, so that the connections that a part opened stay usable. If the wait is
    interrupted, the work is cancelled, and its end awaited.
    """
    loop = _background_loop()

    async def awaited() -> T:
        return await work

    async def start() -> asyncio.Task[T]:
        return loop.create_task(awaited())

    async def end() -> None:
        await asyncio.wait({task})

    task = asyncio.run_coroutine_threadsafe(start(), loop).result()
    ending = asyncio.run_coroutine_threadsafe(end(), loop)
    try:
        ending.result()
    except BaseException:
        loop.call_soon_threadsafe(task.cancel)
        ending.result()
        raise
    return task.result()


def run_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine from synchronous code: in this thread, or in another one if this one runs an event loop already.

    Ctrl-C cancels it, and raises KeyboardInterrupt when it has ended, with the notes that the cancelled work added.
    """
    answers: list[T] = []
    notes: list[str] = []

    async def work_on() -> None:  # of a task that returned the answer asyncio would make a text, to compare handlers
        try:
            answers.append(await work)
        except asyncio.CancelledError as error:
            notes.extend(getattr(error, "__notes__", ()))
            raise

    try:
        if _loop_runs():
            finish(work_on())
        else:
            asyncio.run(work_on())
    except KeyboardInterrupt as interrupt:
        for note in notes:
            interrupt.add_note(note)
        raise
    return answers[0]


def _loop_runs() -> bool:
    """Whether this thread runs an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def blocking(work: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Make a coroutine function an ordinary one, which returns when the work is done: see `run_loop`."""

    @wraps(work)
    def call(*args: P.args, **options: P.kwargs) -> T:
        return run_loop(work(*args, **options))

    return call


def asynchronous(call: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Return the coroutine function that `blocking` made an ordinary one."""
    work: Callable[P, Coroutine[Any, Any, T]] = call.__wrapped__  # type: ignore[attr-defined]
    return work


@cache
def _background_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="egg-graph-loop", daemon=True).start()
    return loop
