"""One coroutine under callers of both kinds: what it awaits, its errors and its context variables."""

import asyncio
import os
import threading
import time
from contextvars import ContextVar

import pytest

from egg_graph.calls import MOST_IDLE, Call, arun, in_thread, run, run_loop

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


def test_threads_are_used_again_and_few_stay() -> None:
    async def one_after_the_other() -> set[int]:
        return {await in_thread(threading.get_ident) for _ in range(50)}

    async def at_once() -> None:
        await asyncio.gather(*(in_thread(time.sleep, 0.02) for _ in range(30)))

    before = threading.active_count()
    asyncio.run(at_once())
    assert len(asyncio.run(one_after_the_other())) <= MOST_IDLE + 1
    assert threading.active_count() - before <= MOST_IDLE


def test_what_does_not_need_the_loop_is_done_in_one_thread() -> None:
    async def work() -> set[int]:
        return {threading.get_ident(), *[await Call(threading.get_ident) for _ in range(3)], threading.get_ident()}

    assert len(asyncio.run(arun(work()))) == 1


def test_a_part_may_be_an_ordinary_function_that_returns_something_to_await() -> None:
    async def work() -> list[str]:
        ask = Part().asynchronous
        return [await Call(lambda: ask("one")), await Call(lambda: ask("two"))]

    assert run(work()) == asyncio.run(arun(work())) == ["one by nobody", "two by nobody"]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_starts_threads_of_its_own() -> None:
    asyncio.run(in_thread(int))  # leaves one that is idle
    child = os.fork()
    if child == 0:
        answer = 1
        try:
            answer = asyncio.run(asyncio.wait_for(in_thread(lambda: 7), 10))
        finally:
            os._exit(answer)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
