"""The judge's side of one candidate's process on the GPU: commands, answers, and how it ended."""

from __future__ import annotations

import json
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from egg_graph.evaluator.nursery import GRACE, Ended, Limits, Nursery, await_fate, ended
from egg_graph.evaluator.outcome import finding_of
from egg_graph.schema import Finding

SESSION_SECONDS = 900.0
"""The nursery ends a session that lasts longer, whatever it does."""
KILL = b"k"


class CandidateFailed(Exception):
    """The candidate, not the machine, failed; carries the finding and the log."""

    def __init__(self, finding: Finding, log: str) -> None:
        super().__init__(finding.message)
        self.finding = finding
        self.log = log


class Session:
    """One worker process with one candidate in `folder`.

    Args:
        nursery: forks the worker.
        folder: holds `candidate.py`.
        timeout: seconds that one command may take.
    """

    def __init__(self, nursery: Nursery, folder: Path, timeout: float) -> None:
        self.folder = folder
        self.timeout = timeout
        self.started = time.monotonic()
        self.control, theirs = socket.socketpair()
        limits = Limits(wall_seconds=SESSION_SECONDS, memory_bytes=None)
        with theirs:
            self.fate: socket.socket | None = nursery.launch(
                "egg_graph.evaluator.gpu_worker:serve", {}, folder, limits, theirs.fileno()
            )
        self.lines = self.control.makefile("rb")

    @property
    def alive(self) -> bool:
        """Whether commands can still be given."""
        return self.fate is not None

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """One command, one answer.

        Raises:
            CandidateFailed: if the candidate raised, died, or took too long.
            InfrastructureError: if the nursery was lost.
        """
        limit = self.timeout
        self.control.settimeout(limit)
        try:
            self.control.sendall(json.dumps({"do": do, "limit": limit, **arguments}).encode() + b"\n")
            line = self.lines.readline()
        except TimeoutError:
            raise self._failure(limit, kill=True) from None
        except OSError:
            line = b""
        if not line.endswith(b"\n"):
            raise self._failure(limit, kill=False)
        try:
            answer = json.loads(line)
            finding = Finding.model_validate(answer["finding"]) if "finding" in answer else None
        except (ValueError, TypeError) as error:
            finding = Finding(kind="exited", message=f"the process gave no readable answer: {error}")
        if finding is not None:
            raise CandidateFailed(finding, self._end(kill=True).log)
        return dict(answer)

    def _failure(self, limit: float, *, kill: bool) -> CandidateFailed:
        end = self._end(kill=kill)
        if kill:
            end = Ended("timeout", 0, end.seconds, None, end.log)
        finding = finding_of(end, limit=limit)
        assert finding is not None
        return CandidateFailed(finding, end.log)

    def _end(self, *, kill: bool) -> Ended:
        assert self.fate is not None
        fate, self.fate = self.fate, None
        if kill:
            with suppress(BrokenPipeError, ConnectionResetError):  # it has ended already, and its end is told
                fate.sendall(KILL)
        self.lines.close()
        self.control.close()
        return ended(await_fate(fate, GRACE), b"", self.folder, time.monotonic() - self.started)

    def close(self) -> None:
        """End the worker, whatever it is doing."""
        if self.fate is not None:
            self._end(kill=True)
