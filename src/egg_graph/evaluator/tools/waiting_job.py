"""A job whose programs are started before anybody knows whether they are needed, and wait for the judge.

Most of a tool's seconds are its own start, Python's, and the import of PyTorch, none of which needs the GPU, and the
loading of the candidate, which does not need it alone.
"""

from __future__ import annotations

import json
import os
import select
import socket
import time
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any, Self

from egg_graph.evaluator.device.access import give_way
from egg_graph.evaluator.host.fork_server import (
    GRACE,
    KILL,
    ChildExit,
    ForkServer,
    Limits,
    collect_exit,
    stopped,
    wait_for_exit,
)
from egg_graph.schema import InfrastructureError

WAITING_SECONDS = 3600.0
"""Longest time that a job waits for the go [s]; one that was ended then is started again."""
START_SECONDS = 60.0
"""Longest time that the judge waits for the programs to start, or to load [s], the time that they are stopped apart."""
POLL = 0.05
"""Seconds between two looks at programs that start."""
LONGEST_ANSWER = 1 << 20
"""How much of the job's answer is read [bytes]."""


class WaitingJob:
    """One such job: `launch` it at any time, then `load` a case where its programs wait for one, and `go` once; the end
    of the block ends it.

    Args:
        fork_server: forks the job.
        folder: holds the candidate and what it has compiled.
        job: "module:function" (see `ForkServer.launch`); its answer goes to the channel.
        ready: files in the folder that are there once the programs have started.
        seconds: time limit of the job, counted from the go [s].
        loaded: files in the folder that are there once the programs have loaded the case.
        tools: whether it may do what tools need, as `Limits.tools`.
    """

    def __init__(
        self,
        fork_server: ForkServer,
        folder: Path,
        job: str,
        ready: Collection[str],
        seconds: float,
        *,
        loaded: Collection[str] = (),
        tools: bool = True,
    ) -> None:
        self.fork_server, self.folder, self.seconds = fork_server, folder, seconds
        self._job, self._ready, self._loaded, self._tools = job, ready, loaded, tools
        self._exit_socket: socket.socket | None = None
        self._control: socket.socket | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def launch(self, payload: Mapping[str, Any]) -> None:
        """Start the job, in the place of one that waits."""
        self.close()
        for name in (*self._ready, *self._loaded):
            with suppress(OSError):  # it is not there, or the candidate made a folder of it
                (self.folder / name).unlink()
        limits = Limits(wall_seconds=WAITING_SECONDS + self.seconds, memory_bytes=None, tools=self._tools)
        control, theirs = socket.socketpair()
        with theirs:
            self._exit_socket = self.fork_server.launch(self._job, payload, self.folder, limits, theirs.fileno())
        self._control = control

    @property
    def waits(self) -> bool:
        """Whether it was started and has not ended."""
        return self._exit_socket is not None and not _has_news(self._exit_socket, 0.0)

    def wait_until_ready(self) -> None:
        """Return when its programs have started, or it has ended; a measurement that waits goes first meanwhile."""
        self._wait_for(self._ready)

    def load(self, case: dict[str, Any]) -> None:
        """Let its programs load a case, as `write_case` returned it; a measurement that waits goes first meanwhile.

        Nothing happens where it was not launched.
        """
        if not self.waits:
            return
        self._send(case)
        self._wait_for(self._loaded)

    def _wait_for(self, names: Collection[str]) -> None:
        files = [self.folder / name for name in names]
        for _ in range(int(START_SECONDS / POLL)):
            if all(map(os.path.lexists, files)) or not self.waits:
                return
            give_way(self._paused)
            time.sleep(POLL)

    def _send(self, told: dict[str, Any]) -> None:
        assert self._control is not None
        self._control.settimeout(self.seconds)
        with suppress(OSError):  # the job has ended, and its end is told
            self._control.sendall(json.dumps(told).encode() + b"\n")

    def _paused(self) -> AbstractContextManager[object]:
        """A block in which its programs are stopped."""
        return nullcontext() if self._exit_socket is None else stopped(self._exit_socket)

    def go(self) -> ChildExit:
        """Let the programs work; returns how the job ended, which was started before.

        Raises:
            InfrastructureError: if the fork server was lost; the next call starts a new one.
        """
        started = time.monotonic()
        self._send({})
        try:
            return self._end(started, self.seconds)
        except InfrastructureError:
            self.fork_server.stop()
            raise

    def close(self) -> None:
        """End it, whatever it is doing."""
        if self._exit_socket is not None:
            with suppress(InfrastructureError):  # a lost fork server's children are lost with it
                self._end(time.monotonic(), 0.0)

    def _end(self, started: float, seconds: float) -> ChildExit:
        """Wait for the job's end, and end it when so many seconds have passed since `started`."""
        assert self._exit_socket is not None
        assert self._control is not None
        exit_socket, self._exit_socket = self._exit_socket, None
        with self._control as control:
            if not _has_news(exit_socket, max(0.0, started + seconds - time.monotonic())):
                with suppress(OSError):  # it has just ended
                    exit_socket.sendall(KILL)
            status = wait_for_exit(exit_socket, GRACE)
            return collect_exit(status, _received(control), self.folder, time.monotonic() - started)


def _has_news(exit_socket: socket.socket, seconds: float) -> bool:
    """Whether a job ends within so many seconds."""
    return bool(select.select([exit_socket], [], [], seconds)[0])


def _received(control: socket.socket) -> bytes:
    """What a job that has ended had answered."""
    control.setblocking(False)
    try:
        return control.recv(LONGEST_ANSWER)
    except OSError:
        return b""
