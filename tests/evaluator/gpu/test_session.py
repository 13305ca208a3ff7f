"""What a judge makes of a worker that takes too much, says too much, or makes no sense; the worker is stood in for."""

import json
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from egg_graph.evaluator.gpu import worker_session as gpu_session
from egg_graph.evaluator.gpu.worker_session import CandidateFailed, WorkerSession
from egg_graph.evaluator.spending import accounted, note_peak
from egg_graph.schema import Finding, Memory


class ForkServer:
    """Runs `behave` on the worker's end of the socket, and tells a clean end when asked to end it."""

    def __init__(self, behave: Callable[[socket.socket], None]) -> None:
        self.behave = behave

    def launch(self, job: str, payload: Any, folder: Path, limits: Any, channel: int, *rest: Any) -> socket.socket:
        ours, theirs = socket.socketpair()
        worker = socket.socket(fileno=os.dup(channel))
        threading.Thread(target=self._run, args=(worker,), daemon=True).start()
        threading.Thread(target=self._tell, args=(theirs,), daemon=True).start()
        return ours

    def _run(self, worker: socket.socket) -> None:
        with worker:
            worker.recv(1 << 16)
            try:
                self.behave(worker)
            except OSError:
                return  # the judge has closed its end

    def _tell(self, fate: socket.socket) -> None:
        with fate:
            fate.recv(1)
            fate.sendall(json.dumps({"cause": "signal", "code": 9}).encode() + b"\n")


def session(behave: Callable[[socket.socket], None], folder: Path, **settings: Any) -> WorkerSession:
    return WorkerSession(ForkServer(behave), folder, 10.0, **settings)  # type: ignore[arg-type]


def finding_of(asked: WorkerSession) -> Finding:
    with pytest.raises(CandidateFailed) as failed:
        asked.ask("call")
    assert not asked.alive
    return failed.value.finding


def test_an_answer_in_pieces_is_put_together(tmp_path: Path) -> None:
    def behave(worker: socket.socket) -> None:
        for piece in (b'{"a', b'": 1}', b'\n{"b": 2}\n'):
            worker.sendall(piece)
        worker.recv(1)

    asked = session(behave, tmp_path)
    assert asked.ask("one") == {"a": 1}
    assert asked.ask("two") == {"b": 2}
    asked.close()


def test_what_a_worker_says_it_compiled_is_counted_as_that_within_the_time_it_took(tmp_path: Path) -> None:
    def behave(worker: socket.socket) -> None:
        for told in (b"0.004", b"1e9", b"NaN", b"-3"):
            time.sleep(0.02)
            worker.sendall(b'{"compiling": ' + told + b"}\n")
            worker.recv(1 << 16)

    asked = session(behave, tmp_path)
    with accounted("correctness") as account:
        assert asked.ask("one") == {}, "what was told is no part of the answer"
        first = account.spending().seconds
        asked.ask("two")
        both = account.spending().seconds
        asked.ask("three")
        asked.ask("four")
        assert account.spending().seconds["compile"] == both["compile"], "no number, and less than nothing"
    asked.close()
    assert first["compile"] == pytest.approx(0.004) and first["correctness"] > 0.01
    assert 0.02 <= both["compile"] < 1.0


def test_the_memory_that_a_worker_holds_at_its_end_is_noted(tmp_path: Path) -> None:
    asked = session(lambda worker: worker.sendall(b"{}\n"), tmp_path, watch=lambda: note_peak("candidate", 5.0))
    with accounted() as account:
        asked.ask("one")
        asked.close()
        assert account.spending().memory == Memory(candidate_bytes=5.0)


@pytest.mark.parametrize(
    "line", [b"[1]\n", b"3\n", b'"x"\n', b"{\n", b'{"finding": 3}\n', b"\xff\xfe\n", b"[" * 9999 + b"\n"]
)
def test_an_answer_without_sense_is_the_candidates(tmp_path: Path, line: bytes) -> None:
    assert finding_of(session(lambda worker: worker.sendall(line), tmp_path)).kind == "exited"


def test_an_answer_without_end_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_session, "LONGEST_ANSWER", 1 << 16)

    def behave(worker: socket.socket) -> None:
        while True:
            worker.sendall(b"x" * 4096)

    assert "no end of it" in finding_of(session(behave, tmp_path)).message


def test_what_the_watch_finds_ends_the_session_while_an_answer_is_awaited(tmp_path: Path) -> None:
    looks: list[int] = []

    def watch() -> Finding | None:
        looks.append(1)
        return Finding(kind="memory_exceeded", message="took it all") if len(looks) == 3 else None

    found = finding_of(session(lambda worker: worker.recv(1), tmp_path, watch=watch))
    assert found.kind == "memory_exceeded"
    assert len(looks) == 3
