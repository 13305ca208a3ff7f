"""What runs beside a judge's work runs while the judge shares the GPU, and at no other time."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from egg_graph.evaluator.device.access import GpuAccess, give_way
from egg_graph.evaluator.device.beside import Beside, GivenUp
from egg_graph.evaluator.device.lease import Lease


class Process:
    """Stands for a process: whether it runs."""

    runs = True

    @contextmanager
    def paused(self) -> Iterator[None]:
        self.runs = False
        yield
        self.runs = True


def test_it_runs_while_answers_are_computed_and_at_no_other_time(tmp_path: Path) -> None:
    access, process = GpuAccess(Lease("GPU-x", folder=tmp_path, patience=20, quantum=0.0)), Process()
    with access.beside.joining() as joining:
        begun = threading.Thread(target=joining, args=(process.paused,))
        begun.start()
        seen = []
        with access.computing():
            begun.join()
            seen.append(process.runs)
            with access.away():
                seen.append(process.runs)
                with access.computing():
                    seen.append(process.runs)
                seen.append(process.runs)
            seen.append(process.runs)
            with access.measuring():
                seen.append(process.runs)
                with access.computing():
                    seen.append(process.runs)
            seen.append(process.runs)
        seen.append(process.runs)
        with access.alone_throughout():
            seen.append(process.runs)
            with access.computing():
                seen.append(process.runs)
        assert seen == [True, False, True, False, True, False, False, True, False, False, True]


def test_it_is_stopped_while_another_judge_measures(tmp_path: Path) -> None:
    lease, process, seen = Lease("GPU-x", folder=tmp_path, patience=20, quantum=0.0), Process(), []
    access = GpuAccess(lease)

    def measure() -> None:
        with GpuAccess(lease).measuring():
            seen.append(process.runs)

    with access.beside.joining() as joining, access.computing():
        joining(process.paused)
        other = threading.Thread(target=measure)
        other.start()
        while other.is_alive():
            give_way()
        assert seen == [False] and process.runs


def test_what_joins_while_all_are_stopped_waits_stopped() -> None:
    beside, process, began = Beside(), Process(), threading.Event()

    def start() -> None:
        began.set()
        joining(process.paused)

    with beside.joining() as joining:
        waiting = threading.Thread(target=start)
        waiting.start()
        began.wait()
        waiting.join(0.2)
        assert waiting.is_alive() and not process.runs
        beside.let_run()
        waiting.join()
        assert process.runs


def test_what_nobody_waits_for_any_more_is_given_up() -> None:
    beside, caught = Beside(), []

    def start() -> None:
        try:
            joining(Process().paused)
        except GivenUp as error:
            caught.append(error)

    with beside.joining() as joining:
        waiting = threading.Thread(target=start)
        waiting.start()
    waiting.join(5)
    assert caught and not waiting.is_alive()
    with pytest.raises(GivenUp):
        joining(Process().paused)
