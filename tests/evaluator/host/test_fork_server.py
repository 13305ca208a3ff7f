"""Jobs of a fork server: one that is waited for can be stopped for a while, which does not count as its time."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from egg_graph.evaluator.host.fork_server import ForkServer, Limits, Stopped
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
    states: list[set[str]] = []

    def give_way(stopped: Stopped) -> None:
        if not states and (working := _states(tmp_path)):
            with stopped():
                time.sleep(1.5)
                states.extend((working, _states(tmp_path)))

    end = fork_server.run(f"{jobs.__name__}:work", {"steps": 10}, tmp_path, Limits(wall_seconds=1.2), give_way)
    assert end.report is not None, end
    assert end.report["answer"] == {"done": 10}
    assert end.seconds > 1.5
    assert states[1] == {"T"} != states[0]


def _states(folder: Path) -> set[str]:
    """States of the processes that work in a folder."""
    found = set()
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and os.readlink(entry / "cwd") == str(folder):
                found.add((entry / "stat").read_text().rsplit(")", 1)[1].split()[0])
    return found
