"""Nsight Compute on one candidate, started before anybody knows whether there is something to profile.

Most of a profile's seconds are the start of `ncu` and of Python and the import of PyTorch, none of which needs the GPU.
A `WaitingProfiler` has spent them when the judge gives the go, so the GPU is held alone only for the forward itself.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import socket
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

from egg_graph.evaluator.host.environment import clean_environment
from egg_graph.evaluator.host.fork_server import (
    GRACE,
    KILL,
    ChildExit,
    ForkServer,
    Limits,
    collect_exit,
    wait_for_exit,
)
from egg_graph.evaluator.tools.compiled_metrics import metrics_of
from egg_graph.evaluator.worker.profile_job import READY
from egg_graph.schema import InfrastructureError, StageName

PROFILE_SECONDS = 40.0
"""Time limit of the profiler, counted from the go [s]. A GPU that lacks a metric needs a second start within it."""
WAITING_SECONDS = 3600.0
"""Longest time that a profiler waits for the go [s]; one that was ended then is started again."""
START_SECONDS = 60.0
"""Longest time that the go is kept back for `ncu` and the watched program to start [s]."""
POLL = 0.05
"""Seconds between two looks at a profiler that starts."""
LONGEST_ANSWER = 1 << 20
"""How much of the job's answer is read [bytes]."""


class WaitingProfiler:
    """A profiler for the candidate in a folder: `start` it at any time, `go` once; the end of the block ends it.

    Args:
        fork_server: forks the job.
        folder: holds the candidate and what it has compiled.
        stage: selects the metrics; None selects those of all stages.
    """

    def __init__(self, fork_server: ForkServer, folder: Path, stage: StageName | None) -> None:
        self.fork_server, self.folder, self.stage = fork_server, folder, stage
        self.kernels: frozenset[str] = frozenset()
        """Names of the kernels that it looks at."""
        self._exit_socket: socket.socket | None = None
        self._control: socket.socket | None = None

    def __enter__(self) -> WaitingProfiler:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def start(self, kernels: Collection[str]) -> None:
        """Start `ncu` and the program that it watches, which then wait; nothing where `ncu` is not on the PATH.

        Args:
            kernels: names of the kernels to look at; others may be among them that never run.
        """
        if shutil.which("ncu") is None:
            return
        self.close()
        self.kernels = frozenset(kernels)
        with suppress(OSError):  # it is not there, or the candidate made a folder of it
            (self.folder / READY).unlink()
        payload = {
            "kernels": sorted(self.kernels),
            "metrics": metrics_of(self.stage),
            "python_path": clean_environment()["PYTHONPATH"],
        }
        limits = Limits(wall_seconds=WAITING_SECONDS + PROFILE_SECONDS, memory_bytes=None, tools=True)
        control, theirs = socket.socketpair()
        with theirs:
            job = "egg_graph.evaluator.worker.profile_job:run"
            self._exit_socket = self.fork_server.launch(job, payload, self.folder, limits, theirs.fileno())
        self._control = control

    @property
    def waits(self) -> bool:
        """Whether it was started and has not ended."""
        return self._exit_socket is not None and not _has_news(self._exit_socket, 0.0)

    def make_ready(self, kernels: Collection[str]) -> None:
        """Return when a profiler for these kernels has nothing left to do without the GPU; starts one if none waits."""
        if not self.waits or not self.kernels.issuperset(kernels):
            self.start(kernels)
        until = time.monotonic() + START_SECONDS
        while self.waits and not os.path.lexists(self.folder / READY) and time.monotonic() < until:
            time.sleep(POLL)

    def go(self, case: dict[str, Any]) -> ChildExit:
        """Let the forward run; returns how the job ended, which was started before.

        Args:
            case: as `write_case` returned it.

        Raises:
            InfrastructureError: if the fork server was lost; the next call starts a new one.
        """
        assert self._control is not None
        self._control.settimeout(PROFILE_SECONDS)
        started = time.monotonic()
        with suppress(OSError):  # the job has ended, and its end is told
            self._control.sendall(json.dumps(case).encode() + b"\n")
        try:
            return self._end(started, PROFILE_SECONDS)
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
