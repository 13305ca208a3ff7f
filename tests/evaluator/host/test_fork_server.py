"""Jobs of a fork server: one that is waited for can be stopped for a while, which does not count as its time."""

import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from egg_graph.evaluator.host.fork_server import ForkServer, Limits, collect_exit, stopped, wait_for_exit
from tests.evaluator.host import jobs


@pytest.fixture(scope="module")
def fork_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    made = ForkServer(
        interpret=False, folder=tmp_path_factory.mktemp("fork_server"), warm=(jobs.__name__,), environment=path
    )
    made.start()
    yield made
    made.stop()


def test_a_job_stands_still_while_another_judge_measures(fork_server: ForkServer, tmp_path: Path) -> None:
    with (tmp_path / "report").open("w+b") as report:
        limits, began = Limits(wall_seconds=1.2), time.monotonic()
        exit_socket = fork_server.launch(f"{jobs.__name__}:work", {"steps": 10}, tmp_path, limits, report.fileno())
        while not (working := _states(tmp_path)):
            time.sleep(0.01)
        with stopped(exit_socket):
            time.sleep(1.5)
            standing = _states(tmp_path)
        status = wait_for_exit(exit_socket, 20.0)
        report.seek(0)
        end = collect_exit(status, report.read(), tmp_path, time.monotonic() - began)
    assert end.report is not None, end
    assert end.report["answer"] == {"done": 10}
    assert end.seconds > 1.5
    assert standing == {"T"} != working


def test_jobs_that_start_in_one_folder_at_once_each_do_their_own(fork_server: ForkServer, tmp_path: Path) -> None:
    def done(steps: int) -> object:
        end = fork_server.run(f"{jobs.__name__}:work", {"steps": steps}, tmp_path, Limits(wall_seconds=20))
        return end.report and end.report["answer"]["done"]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(done, range(8))) == list(range(8))


def test_a_server_outlives_the_thread_that_started_it(fork_server: ForkServer, tmp_path: Path) -> None:
    """A lost server is started anew by the thread that needs it, which may be one of a pool that is about to end."""
    fork_server.stop()
    job = f"{jobs.__name__}:work"
    with ThreadPoolExecutor(1) as pool:
        pool.submit(fork_server.run, job, {"steps": 1}, tmp_path, Limits(wall_seconds=20)).result()
    process = fork_server._process
    time.sleep(0.2)
    assert process is not None and process.poll() is None
    end = fork_server.run(job, {"steps": 2}, tmp_path, Limits(wall_seconds=20))
    assert end.report is not None and end.report["answer"] == {"done": 2}
    fork_server.stop()
    assert process.poll() is not None


def _states(folder: Path) -> set[str]:
    """States of the processes that work in a folder."""
    found = set()
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and os.readlink(entry / "cwd") == str(folder):
                found.add((entry / "stat").read_text().rsplit(")", 1)[1].split()[0])
    return found
