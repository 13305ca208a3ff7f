"""The judge's side of a candidate's process on the GPU: commands, answers, and how it ended."""

from __future__ import annotations

import json
import select
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, Protocol

from egg_graph.evaluator.device.access import give_way
from egg_graph.evaluator.host.fork_server import (
    GLANCE,
    GRACE,
    KILL,
    ChildExit,
    ForkServer,
    Limits,
    collect_exit,
    stopped,
    wait_for_exit,
)
from egg_graph.evaluator.host.outcome import finding_of
from egg_graph.evaluator.spending import shift_time
from egg_graph.evaluator.wire.untrusted import parse
from egg_graph.schema import Finding, InfrastructureError

SESSION_SECONDS = 900.0
"""The fork server kills a session after this time [s]."""
START_SECONDS = 120.0
"""Time limit of a worker's start [s]; a restarted fork server imports for some of it."""
LONGEST_ANSWER = 16 << 20
"""Longest answer of a worker [bytes]."""


class CandidateFailed(Exception):
    """The candidate, not the machine, failed; carries the finding and the log."""

    def __init__(self, finding: Finding, log: str) -> None:
        super().__init__(finding.message)
        self.finding = finding
        self.log = log


class Watch(Protocol):
    """Looks at what a worker takes of the machine."""

    def __call__(self) -> Finding | None:
        """What is wrong with it."""
        ...

    def leaving_out(self) -> AbstractContextManager[None]:
        """A block in which what is taken is not the worker's."""
        ...


class WorkerSession:
    """One worker process with one candidate in `folder`.

    Args:
        fork_server: forks the worker.
        folder: holds `candidate.py`.
        timeout: seconds that one command may take.
        watch: looked at while an answer is awaited; what it finds ends the session.
    """

    def __init__(self, fork_server: ForkServer, folder: Path, timeout: float, watch: Watch | None = None) -> None:
        self.fork_server = fork_server
        self.folder = folder
        self.timeout = timeout
        self.watch = watch
        self.started = time.monotonic()
        self.control, theirs = socket.socketpair()
        limits = Limits(wall_seconds=SESSION_SECONDS, memory_bytes=None)
        with theirs:
            self.exit_socket: socket.socket | None = fork_server.launch(
                "egg_graph.evaluator.worker.gpu_worker:serve", {}, folder, limits, theirs.fileno()
            )
        self.received = b""
        self._prepared: WorkerSession | None = None
        """What `prepare_blank` started, until `blank` returns it."""
        self._paused_since: float | None = None
        self._paused_seconds = 0.0

    @property
    def alive(self) -> bool:
        """Whether commands can still be given."""
        return self.exit_socket is not None

    @property
    def has_processes(self) -> bool:
        """Whether the worker, or a blank one that was prepared, has not ended."""
        return self.alive or self._prepared is not None

    def start(self, memory_fraction: float) -> None:
        """Open the GPU; nothing of the candidate runs yet, so its time limit does not count.

        Raises:
            CandidateFailed: as `ask`.
            InfrastructureError: if the worker does not start in time.
        """
        try:
            self._ask("start", START_SECONDS, {"memory_fraction": memory_fraction})
        except CandidateFailed as failure:
            if failure.finding.kind == "timeout":
                raise InfrastructureError(f"no process for a candidate started within {START_SECONDS:.0f} s") from None
            raise

    def prepare_blank(self) -> None:
        """Start what `blank` will return. Raises as `start`."""
        if self._prepared is None:
            with nullcontext() if self.watch is None else self.watch.leaving_out():
                self._prepared = self.blank()

    def blank(self) -> WorkerSession:
        """Another worker of the same kind, without a candidate, with the GPU open. Raises as `start`."""
        if self._prepared is not None:
            blank, self._prepared = self._prepared, None
            return blank
        blank = WorkerSession(self.fork_server, self.folder, self.timeout)
        try:
            blank.start(1.0)
        except BaseException:
            blank.close()
            raise
        return blank

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """One command, one answer, within this session's timeout.

        Raises:
            CandidateFailed: if the candidate raised, died, or took too long.
            InfrastructureError: if the fork server was lost.
        """
        return self._ask(do, self.timeout, arguments)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the worker's processes for the block; the time does not count as its own.

        What it has queued on the GPU is still done.
        """
        with nullcontext() if self.exit_socket is None else stopped(self.exit_socket):
            self._paused_since = time.monotonic()
            try:
                yield
            finally:
                self._paused_seconds += time.monotonic() - self._paused_since
                self._paused_since = None

    def _ask(self, do: str, limit: float, arguments: Mapping[str, Any]) -> dict[str, Any]:
        self.control.settimeout(limit)
        asked = time.monotonic()
        try:
            self.control.sendall(json.dumps({"do": do, "limit": limit, **arguments}).encode() + b"\n")
            line = self._line(limit)
        except TimeoutError:
            raise self._failure(limit, kill=True) from None
        except OSError:
            line = b""
        if not line:
            raise self._failure(limit, kill=False)
        try:
            answer = dict(parse(line))
            finding = Finding.model_validate(answer["finding"]) if "finding" in answer else None
            compiling = min(float(answer.pop("compiling", 0.0)), time.monotonic() - asked)
        except (ValueError, TypeError, OverflowError) as error:
            answer, compiling = {}, 0.0
            finding = Finding(kind="exited", message=f"the process gave no readable answer: {error}")
        if compiling > 0:  # also false for a NaN, which a candidate may tell
            shift_time("compile", compiling)
        if finding is not None:
            raise CandidateFailed(finding, self._end(kill=True).log)
        return answer

    def _line(self, limit: float) -> bytes:
        """The next line; empty if the worker is gone.

        Raises:
            TimeoutError: after `limit` seconds.
            CandidateFailed: if `watch` finds something, or the line has no end.
        """
        until = time.monotonic() + limit - self._paused_seconds
        while b"\n" not in self.received:
            give_way(self.paused)
            if len(self.received) > LONGEST_ANSWER:
                raise self._stopped(Finding(kind="exited", message="the process gave no readable answer: no end of it"))
            left = until + self._paused_seconds - time.monotonic()
            if left <= 0 and self._paused_since is None:
                raise TimeoutError
            ready, _, _ = select.select([self.control], [], [], min(max(left, 0.0), GLANCE))
            if ready:
                piece = self.control.recv(1 << 16)
                if not piece:
                    return b""
                self.received += piece
            elif self.watch is not None and (found := self.watch()) is not None:
                raise self._stopped(found)
        line, _, self.received = self.received.partition(b"\n")
        return line

    def _stopped(self, finding: Finding) -> CandidateFailed:
        return CandidateFailed(finding, self._end(kill=True).log)

    def _failure(self, limit: float, *, kill: bool) -> CandidateFailed:
        end = self._end(kill=kill)
        if kill:
            end = ChildExit("timeout", 0, end.seconds, None, end.log)
        finding = finding_of(end, limit=limit)
        assert finding is not None
        return CandidateFailed(finding, end.log)

    def _end(self, *, kill: bool) -> ChildExit:
        assert self.exit_socket is not None
        exit_socket = self.exit_socket
        if kill:
            with suppress(OSError):  # it has ended, and its end is told
                exit_socket.sendall(KILL)
        self.exit_socket = None
        self.control.close()
        return collect_exit(wait_for_exit(exit_socket, GRACE), b"", self.folder, time.monotonic() - self.started)

    def close(self) -> None:
        """End the worker, whatever it is doing, and a blank one that nobody needed."""
        if self._prepared is not None:
            self._prepared.close()
            self._prepared = None
        if self.exit_socket is None:
            return
        if self.watch is not None:
            self.watch()  # the memory that it holds at its end is close to the most it held
        self._end(kill=True)
