"""Where questions wait until an evaluator is free, and callers for their answers. It lives in one event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress

from egg_graph.calls import in_thread
from egg_graph.evaluator.cancellation import cancellable
from egg_graph.evaluator.pool import PooledEvaluator
from egg_graph.evaluator.progress import Progress, hear_progress
from egg_graph.evaluator.remote.questions import Answer, News, Question, judge, refusal
from egg_graph.evaluator.remote.spool import Spool
from egg_graph.schema import BadInput, InfrastructureError

LOG = logging.getLogger("egg_graph")
MOST_OPEN = 2000
"""Questions that may wait at the same time."""
LOOK_SECONDS = 0.2
"""Seconds between two looks at the folder."""

Listener = Callable[[str, Question | None, Answer], None]


class Full(InfrastructureError):
    """Too many questions wait."""


class QueuedQuestion:
    """One question in the queue, and who waits for its answer."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.callers: set[str] = set()
        self.progress: list[Progress] = [Progress(doing="waits for a judge")]
        self.ended = False
        self.answer: Answer | None = None
        self.changed = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    def tell(self, progress: Progress) -> None:
        """Wake who waits, with a report."""
        self.progress.append(progress)
        self._wake()

    def end(self) -> None:
        """Wake who waits: there is an answer, or there will be none."""
        self.ended = True
        self._wake()

    async def news(self, after: int, seconds: float) -> Sequence[Progress]:
        """The reports after the first `after`, as soon as there are any; none at the end, or after `seconds`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self.ended and len(self.progress) <= after:
                    await self.changed.wait()
        return self.progress[after:]

    def _wake(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


class JudgeQueue:
    """Questions of many callers before one evaluator.

    What is asked lies in the spool's folder until it is judged, and the answer stays there: after a restart, what was
    not judged is judged, and what was is not judged again.

    Args:
        spool: the folder; its `judge` names the evaluator.
        evaluator: judges.
        workers: calls that it takes at the same time.
        on_answer: called with each new answer: its key, the question (None where nobody could read it), the answer.
    """

    def __init__(
        self, spool: Spool, evaluator: PooledEvaluator, *, workers: int = 1, on_answer: Listener | None = None
    ) -> None:
        self.spool = spool
        self._evaluator = evaluator
        self._free = asyncio.Semaphore(workers)
        self._on_answer = on_answer
        self._asking = asyncio.Lock()
        self._queued: dict[str, QueuedQuestion] = {}

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """The time in which it takes questions; at the end what is being judged is broken off, and stays asked."""
        try:
            yield
        finally:
            tasks = [work.task for work in self._queued.values() if work.task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def take_in(self) -> tuple[asyncio.Task[None], ...]:
        """Take in all that lies in the folder; return what will have judged it."""
        waiting = await in_thread(self.spool.waiting, self._refuse, frozenset(self._queued))
        tasks = (self._start(question).task for question in waiting)
        return tuple(task for task in tasks if task is not None)

    async def ask(self, question: Question, caller: str) -> None:
        """Take in a question. One that is open, or has a lasting answer, costs nothing.

        Raises:
            Full: if too many questions wait.
            InfrastructureError: if the folder cannot be written.
        """
        async with self._asking:
            work = self._queued.get(question.key)
            if work is None:
                kept = await in_thread(self.spool.answer, question)
                if kept is not None and kept.lasting:
                    return
                if len(self._queued) >= MOST_OPEN:
                    raise Full(f"{MOST_OPEN} questions wait already; ask later")
                await in_thread(self.spool.forget, question.key)
                await in_thread(self.spool.ask, question)
                work = self._start(question)
            work.callers.add(caller)

    async def hear(self, key: str, caller: str, after: int, seconds: float) -> Answer | News:
        """The answer to a question, or what was reported since the first `after` reports.

        Args:
            key: of the question.
            caller: who waits.
            after: how many reports the caller has heard.
            seconds: how long to wait for news.

        Raises:
            KeyError: if there is neither that question nor an answer to it.
        """
        work = self._queued.get(key)
        if work is not None:
            work.callers.add(caller)
            heard = min(after, len(work.progress))
            reports = await work.news(heard, seconds)
            if not work.ended:
                return News(reports=tuple(reports), seen=heard + len(reports))
        answer = work.answer if work is not None else None
        answer = answer or await in_thread(self.spool.said, key)
        if answer is None:
            raise KeyError(key)
        return answer

    async def withdraw(self, key: str, caller: str) -> None:
        """Forget a caller. A question for which nobody waits any more is broken off, and asked no longer."""
        work = self._queued.get(key)
        if work is None or work.task is None:
            return
        work.callers.discard(caller)
        if not work.callers:
            work.task.cancel()
            await in_thread(self.spool.withdraw, key)

    def _start(self, question: Question) -> QueuedQuestion:
        """The work at a question, begun if it is not."""
        if question.key not in self._queued:
            work = self._queued[question.key] = QueuedQuestion(question)
            work.task = asyncio.create_task(self._work(work))
            work.task.add_done_callback(_told_if_failed)
        return self._queued[question.key]

    async def _work(self, work: QueuedQuestion) -> None:
        loop = asyncio.get_running_loop()

        def hear(progress: Progress) -> None:
            loop.call_soon_threadsafe(work.tell, progress)

        question = work.question
        try:
            async with self._free:
                with hear_progress(hear):
                    work.answer = await cancellable(judge, self._evaluator, question, self.spool.judge or "")
            await in_thread(self.spool.keep, work.answer)
            self._tell(question.key, question, work.answer)
        finally:
            del self._queued[question.key]
            work.end()

    def _refuse(self, key: str, error: BadInput) -> None:
        """Answer a question that nobody can read."""
        answer = refusal(key, self.spool.judge or "", error)
        self.spool.keep(answer)
        self._tell(key, None, answer)

    def _tell(self, key: str, question: Question | None, answer: Answer) -> None:
        if self._on_answer is not None:
            self._on_answer(key, question, answer)


def _told_if_failed(task: asyncio.Task[None]) -> None:
    """Log why an answer could not be kept."""
    if not task.cancelled() and (error := task.exception()) is not None:
        LOG.error("an answer could not be kept: %s", error)


async def judge_spool(queue: JudgeQueue, *, watch: bool = False) -> None:
    """Judge what lies in the queue's folder, as one batch.

    Args:
        queue: a queue that is open.
        watch: go on, with what is laid down later, until this is cancelled.

    Raises:
        InfrastructureError: if the folder cannot be read or written.
    """
    tasks = set(await queue.take_in())
    while watch:
        await asyncio.sleep(LOOK_SECONDS)
        ended = {task for task in tasks if task.done()}
        await asyncio.gather(*ended)
        tasks = tasks - ended | set(await queue.take_in())
    await asyncio.gather(*tasks)
