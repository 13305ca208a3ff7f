"""One coroutine under callers of both kinds: what it awaits, its errors and its context variables."""

import asyncio
import threading
from contextvars import ContextVar

import pytest

from egg_graph.calls import Call, arun, run, run_loop

WHO: ContextVar[str] = ContextVar("WHO", default="nobody")
BOTH = [pytest.param(run, id="run"), pytest.param(lambda work: asyncio.run(arun(work)), id="arun")]


class Part:
    """Has an ordinary method, one with a twin, and an asynchronous one; each says how it was called, and by whom."""

    def plain(self, word: str) -> str:
        return f"{word} by {WHO.get()}"

    def double(self) -> str:
        return "here"

    async def adouble(self) -> str:
        return "in the loop"

    async def asynchronous(self, word: str) -> str:
        await asyncio.sleep(0)
        return f"{word} by {WHO.get()}"

    def fails(self) -> None:
        raise LookupError("no such thing")

    def stops(self) -> None:
        raise StopIteration


@pytest.mark.parametrize("call", BOTH)
def test_context_variables_reach_the_calls_and_last(call) -> None:
    async def work() -> list[str]:
        part, said = Part(), []
        token = WHO.set("me")
        said += [await Call(part.plain, "plain"), await Call(part.asynchronous, word="asynchronous")]
        WHO.reset(token)
        return [*said, await Call(part.plain, "after")]

    assert call(work()) == ["plain by me", "asynchronous by me", "after by nobody"]
    assert WHO.get() == "nobody"


def test_a_twin_is_preferred_in_an_event_loop() -> None:
    async def work() -> str:
        return await Call(Part().double)

    assert (run(work()), asyncio.run(arun(work()))) == ("here", "in the loop")


@pytest.mark.parametrize("call", BOTH)
def test_an_error_is_raised_where_the_call_is_awaited(call) -> None:
    async def work() -> str:
        try:
            await Call(Part().fails)
        except LookupError as error:
            return str(error)
        return "no error"

    assert call(work()) == "no such thing"


@pytest.mark.parametrize("call", BOTH)
def test_a_part_that_raises_stop_iteration_does_not_hang(call) -> None:
    async def work() -> None:
        await Call(Part().stops)

    with pytest.raises(RuntimeError, match="StopIteration"):
        call(work())


def test_a_cancelled_coroutine_makes_no_further_call_and_cleans_up() -> None:
    done: list[str] = []
    entered, leave = threading.Event(), threading.Event()

    def wait() -> None:
        entered.set()
        leave.wait(30)

    async def work() -> None:
        token = WHO.set("me")
        try:
            await Call(wait)
            await Call(done.append, "the next call")
        finally:
            WHO.reset(token)  # fails among other context variables than its own
            done.append("cleaned up")

    async def cancel() -> None:
        task = asyncio.create_task(arun(work()))
        while not entered.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        leave.set()

    asyncio.run(cancel())
    assert done == ["cleaned up"]


def test_a_coroutine_cancelled_between_its_calls_cleans_up_in_its_own_context() -> None:
    entered, leave, cleaned = threading.Event(), threading.Event(), threading.Event()
    done: list[str] = []

    async def work() -> None:
        token = WHO.set("me")
        try:
            entered.set()
            leave.wait(30)
            await Call(done.append, "the next call")
        finally:
            WHO.reset(token)
            cleaned.set()

    async def cancel() -> None:
        task = asyncio.create_task(arun(work()))
        while not entered.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        leave.set()

    asyncio.run(cancel())
    assert cleaned.wait(10) and done == []


def test_a_coroutine_runs_from_synchronous_code_inside_an_event_loop() -> None:
    async def answer() -> str:
        await asyncio.sleep(0)
        return "answer"

    async def cell() -> str:
        return run_loop(answer())

    assert run_loop(answer()) == asyncio.run(cell()) == "answer"
