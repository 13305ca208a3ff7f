"""Evaluations in an event loop: cancelling one ends the candidate at once, and harms no other."""

import asyncio
import signal
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from egg_graph import Context, build_egg_graph
from egg_graph.evaluator import LocalEvaluator
from egg_graph.evaluator.pool import Pool
from egg_graph.schema import Candidate, Hardware
from tests.evaluator.slow_candidate import REFERENCE, candidate, task
from tests.graph.scripted import StatelessTeam
from tests.lab import processes
from tests.lab.processes import Process, descendants
from tests.paths import read_source

pytestmark = pytest.mark.slow

SECOND = 1.0
"""Within this many seconds a cancelled evaluation has to be over, its processes and files gone."""
ENDLESS = Candidate(
    source=read_source("faults/infinite_loop.py"), author="test", stage="algorithmic_structure", mode="seed"
)


OTHERS: set[int] = set()
"""Process ids of judges that other tests' evaluators keep warm."""


def judges() -> tuple[Process, ...]:
    """The judges of the evaluators of this module."""
    return tuple(judge for judge in processes.judges() if judge.pid not in OTHERS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where evaluators put their files."""
    OTHERS.update(judge.pid for judge in processes.judges())
    with pytest.MonkeyPatch.context() as patch:
        place = tmp_path_factory.mktemp("evaluators")
        patch.setattr(tempfile, "tempdir", str(place))
        yield place


@pytest.fixture(scope="module")
def own(folder: Path) -> Iterator[LocalEvaluator]:
    """An evaluator whose evaluations these tests cancel."""
    with LocalEvaluator(device="none") as local:
        yield local


def at_work(folder: Path) -> list[Process]:
    """The candidates' processes that keep the processor busy."""
    return [p for p in descendants() if p.holds(f"{folder}/egg-evaluator-") and p.alive and _in_a_job(p)]


def _in_a_job(process: Process) -> bool:
    try:
        cwd = Path(f"/proc/{process.pid}/cwd").readlink()
    except OSError:
        return False
    return "/job-" in str(cwd) and process.cpu_seconds >= 0.2


async def until_at_work(folder: Path) -> None:
    async with asyncio.timeout(60):
        while not at_work(folder):
            await asyncio.sleep(0.02)


@asynccontextmanager
async def over_within_a_second(folder: Path) -> AsyncIterator[None]:
    """Ends what runs in the block, with all processes of the judges that were at work and their folders."""
    work = at_work(folder)[0]
    (judge,) = judges()
    there = (judge, *descendants(judge.pid))
    place = next(path for path in folder.iterdir() if work.holds(str(path)))
    started = time.monotonic()
    yield
    while any(p.alive for p in there) or place.exists():
        assert time.monotonic() - started < SECOND, [p.command for p in there if p.alive] or list(place.rglob("*"))
        await asyncio.sleep(0.01)
    assert time.monotonic() - started < SECOND


def test_the_evaluator_goes_on_when_one_of_two_evaluations_is_cancelled(
    own: LocalEvaluator, folder: Path, h200: Hardware
) -> None:
    """One at work, two that wait for their turn: the first is cancelled, and one of the others."""

    async def work() -> str:
        endless = asyncio.create_task(own.aevaluate(task(h200), ENDLESS))
        await until_at_work(folder)
        waiting = [asyncio.create_task(own.aevaluate(task(h200), candidate(number=n))) for n in (1, 2)]
        await asyncio.sleep(0.05)
        (judge,) = judges()
        waiting[0].cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(waiting[0], SECOND)
        assert judges() == (judge,) and not endless.done(), "the evaluation at work does not notice"
        async with over_within_a_second(folder):
            endless.cancel()
            with pytest.raises(asyncio.CancelledError):
                await endless
        return (await waiting[1]).status

    assert asyncio.run(work()) == "correct"


def test_after_an_interrupted_call_a_run_gets_its_own_answers_until_it_is_cancelled(
    own: LocalEvaluator, folder: Path, h200: Hardware
) -> None:
    """Ctrl-C in synchronous code, as in a notebook, then `ainvoke` of a pool: its baseline, and a cancelled call.

    That an evaluator goes on after a cancelled call is shown above.
    """
    pool = Pool([lambda: own])
    graph = build_egg_graph(team=StatelessTeam([ENDLESS.source]), evaluator=pool, principles=())

    def press() -> None:
        asyncio.run(until_at_work(folder))
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)  # as a terminal does

    async def cancel() -> None:
        context = Context(target="h200", device="none")
        run = asyncio.create_task(graph.ainvoke({"reference": REFERENCE}, context=context))
        await until_at_work(folder)
        async with over_within_a_second(folder):
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run

    threading.Thread(target=press).start()
    with pytest.raises(KeyboardInterrupt):
        pool.evaluate(task(h200), ENDLESS)
    asyncio.run(cancel())
