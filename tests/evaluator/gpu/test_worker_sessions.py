"""The command channel of a GPU worker, as far as it goes without a GPU: failures, kills and deaths have names."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from egg_graph.evaluator import gpu_present
from egg_graph.evaluator.device.access import GpuAccess
from egg_graph.evaluator.device.lease import Lease
from egg_graph.evaluator.gpu.worker_session import CandidateFailed, WorkerSession
from egg_graph.evaluator.host.fork_server import ForkServer

pytestmark = pytest.mark.skipif(gpu_present(), reason="with a GPU the worker goes further than these tests expect")


@pytest.fixture(scope="module")
def fork_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    made = ForkServer(
        interpret=False, folder=tmp_path_factory.mktemp("fork_server"), warm=("egg_graph.evaluator.worker.gpu_worker",)
    )
    made.start()
    yield made
    made.stop()


def session(fork_server: ForkServer, folder: Path, timeout: float = 60.0) -> WorkerSession:
    folder.mkdir()
    return WorkerSession(fork_server, folder, timeout=timeout)


def test_a_failure_of_the_worker_itself_is_not_the_candidates_and_ends_it(
    fork_server: ForkServer, tmp_path: Path
) -> None:
    opened = session(fork_server, tmp_path / "one")
    with pytest.raises(CandidateFailed) as failed:
        opened.ask("load", memory_fraction=0.5, precision="tf32", arguments={}, state={}, dtype=None, seed=1)
    assert failed.value.finding.kind == "infrastructure"
    assert not opened.alive
    opened.close()


def test_an_unknown_command_is_told_and_a_session_can_be_closed_at_any_time(
    fork_server: ForkServer, tmp_path: Path
) -> None:
    opened = session(fork_server, tmp_path / "one")
    assert opened.alive
    opened.close()
    assert not opened.alive
    again = session(fork_server, tmp_path / "two")
    with pytest.raises(CandidateFailed, match="KeyError"):
        again.ask("nonsense")
    again.close()


def test_a_worker_that_does_not_answer_in_time_is_killed(fork_server: ForkServer, tmp_path: Path) -> None:
    opened = session(fork_server, tmp_path / "one", timeout=1.0)
    (worker,) = _workers(tmp_path / "one")
    os.kill(worker, signal.SIGSTOP)
    with pytest.raises(CandidateFailed) as failed:
        opened.ask("release", handles=[])
    assert failed.value.finding.kind == "timeout"
    assert not _workers(tmp_path / "one", wait=0)


def test_a_worker_that_dies_is_told_by_its_signal(fork_server: ForkServer, tmp_path: Path) -> None:
    opened = session(fork_server, tmp_path / "one")
    (worker,) = _workers(tmp_path / "one")
    os.kill(worker, signal.SIGSEGV)
    with pytest.raises(CandidateFailed) as failed:
        opened.ask("release", handles=[])
    assert failed.value.finding.kind == "crashed"
    assert "SIGSEGV" in failed.value.finding.message


def test_a_worker_at_work_is_paused_while_another_judge_measures(fork_server: ForkServer, tmp_path: Path) -> None:
    opened = session(fork_server, tmp_path / "one", timeout=2.0)
    (worker,) = _workers(tmp_path / "one")
    os.kill(worker, signal.SIGSTOP)  # it is long at work; when it is paused and goes on, it does so
    lease, measured = Lease("GPU-x", folder=tmp_path / "leases"), []

    def measure() -> None:
        with GpuAccess(lease).measuring():
            time.sleep(2.5)
            measured.append(Path(f"/proc/{worker}/stat").read_text().rsplit(")", 1)[1].split()[0])

    measuring = threading.Thread(target=measure)
    with GpuAccess(lease).computing(), pytest.raises(CandidateFailed) as failed:
        measuring.start()
        opened.ask("nonsense")
    assert measured == ["T"], "a measurement waits for no answer of a worker"
    assert "KeyError" in str(failed.value), "it went on, and the pause does not count as its time"
    measuring.join()


def test_a_blank_worker_is_started_ahead_once_and_ends_with_the_session(
    fork_server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WorkerSession, "start", lambda self, fraction: None)
    taken: list[str] = []

    class Watch:
        def __call__(self) -> None:
            return None

        @contextmanager
        def leaving_out(self) -> Iterator[None]:
            yield
            taken.append("left out")

    (tmp_path / "one").mkdir()
    opened = WorkerSession(fork_server, tmp_path / "one", 60.0, Watch())
    opened.prepare_blank()
    opened.prepare_blank()
    assert taken == ["left out"], "its memory is not the candidate's"
    blank = opened.blank()
    other = opened.blank()
    assert blank.alive and other.alive and blank is not other
    for session in (blank, other):
        session.close()
    opened.prepare_blank()
    opened.close()
    assert not _workers(tmp_path / "one", wait=0), "one that nobody needed ends with the session"


def _workers(folder: Path, wait: float = 30.0) -> list[int]:
    """Processes that work in a folder; waits for the first."""
    deadline = time.monotonic() + wait
    while True:
        found = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if entry.name.isdigit() and os.readlink(entry / "cwd") == str(folder):
                    found.append(int(entry.name))
        if found or time.monotonic() > deadline:
            return found
        time.sleep(0.05)
