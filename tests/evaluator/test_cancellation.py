"""Evaluations in an event loop: cancelling one ends the candidate at once, and harms no other."""

import asyncio
import signal
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import gettempdir

import pytest

from egg_graph import Context, build_egg_graph
from egg_graph.evaluator import LocalEvaluator
from egg_graph.evaluator.pool import Pool
from egg_graph.schema import Candidate, Hardware
from tests.evaluator.slow_candidate import REFERENCE, candidate, task
from tests.graph.scripted import StatelessTeam
from tests.lab.processes import Process, descendants, judges
from tests.paths import read_source
from tests.sample import thorough

pytestmark = pytest.mark.slow

SECOND = 1.0
"""Within this many seconds a cancelled evaluation has to be over, its processes and files gone."""
ENDLESS = Candidate(
    source=read_source("faults/infinite_loop.py"), author="test", stage="algorithmic_structure", mode="seed"
)
FOLDERS = f"{gettempdir()}/egg-evaluator-"
"""Where evaluators put their files."""


def at_work(seconds: float = 0.2) -> list[Process]:
    """The candidates' processes that kept the processor busy for so long."""
    return [p for p in descendants() if p.holds(FOLDERS) and p.alive and p.cpu_seconds >= seconds and _in_a_job(p)]


def _in_a_job(process: Process) -> bool:
    try:
        cwd = Path(f"/proc/{process.pid}/cwd").readlink()
    except OSError:
        return False
    return "/job-" in str(cwd)


async def until_at_work(seconds: float = 0.2) -> None:
    async with asyncio.timeout(120):
        while not at_work(seconds):
            await asyncio.sleep(0.02)


@asynccontextmanager
async def over_within_a_second() -> AsyncIterator[None]:
    """Ends what runs in the block, with all processes of the judges that were at work and their folders."""
    work = at_work()[0]
    (judge,) = judges()
    there = (judge, *descendants(judge.pid))
    place = next(path for path in Path(gettempdir()).glob("egg-evaluator-*") if work.holds(str(path)))
    started = time.monotonic()
    yield
    while any(p.alive for p in there) or place.exists():
        assert time.monotonic() - started < SECOND, [p.command for p in there if p.alive] or list(place.rglob("*"))
        await asyncio.sleep(0.01)
    assert time.monotonic() - started < SECOND


@thorough
def test_after_an_interrupted_call_a_run_gets_its_own_answers_and_cancelling_it_harms_no_other(
    evaluator: LocalEvaluator, h200: Hardware
) -> None:
    """Ctrl-C in synchronous code, as in a notebook; then a run by `ainvoke` at work, and two that wait for their turn.

    One of those that wait is cancelled, then the run; the other gets its answer.
    """
    pool = Pool([lambda: evaluator])
    graph = build_egg_graph(team=StatelessTeam([ENDLESS.source]), evaluator=pool, principles=())

    def press() -> None:
        asyncio.run(until_at_work())
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)  # as a terminal does

    async def cancel() -> str:
        context = Context(target="h200", device="none")
        run = asyncio.create_task(graph.ainvoke({"reference": REFERENCE}, context=context))
        await until_at_work(1.0)  # no reference takes that long
        waiting = [asyncio.create_task(evaluator.aevaluate(task(h200), candidate(number=n))) for n in (1, 2)]
        await asyncio.sleep(0.05)
        (judge,) = judges()
        waiting[0].cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(waiting[0], SECOND)
        assert judges() == (judge,) and not run.done(), "the evaluation at work does not notice"
        async with over_within_a_second():
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run
        return (await waiting[1]).status

    threading.Thread(target=press).start()
    with pytest.raises(KeyboardInterrupt):
        pool.evaluate(task(h200), ENDLESS)
    assert asyncio.run(cancel()) == "correct"
