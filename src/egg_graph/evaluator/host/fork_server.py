"""The judge's side of a fork server: a warm process that forks one confined child per job.

Importing torch and triton takes seconds; a fork of a process that has them takes milliseconds. The fork server itself
never runs candidate code and never touches CUDA, so each child starts clean.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from egg_graph.evaluator.host.environment import clean_environment
from egg_graph.evaluator.wire.untrusted import open_file, parse
from egg_graph.schema import InfrastructureError

LOG_TAIL = 4000
"""Characters of a child's output that are kept."""
GRACE = 10.0
"""Seconds beyond a job's own limit after which the fork server itself counts as lost."""


@dataclass(frozen=True)
class Limits:
    """What one job may use."""

    wall_seconds: float = 60.0
    memory_bytes: int | None = 6 << 30
    """Address space beyond what the fork server holds; None where a CUDA driver maps far more than it uses."""
    file_bytes: int = 1 << 30
    """Of any one file."""
    processes: int = 64
    """At a time, the job's own included; threads eight times that."""
    resident_bytes: int = 24 << 30
    """Memory held by all its processes together."""
    disk_bytes: int = 8 << 30
    """What it may add to its folder, nameless files included; at most half of what is free."""
    tools: bool = False
    """Whether NVIDIA's profiler or sanitizer runs in it: they need local sockets, and what right to hardware counters
    there is."""


@dataclass(frozen=True)
class Ended:
    """How a child ended, and what it reported. The report is data of an untrusted process."""

    cause: Literal["exit", "signal", "timeout", "processes", "memory", "disk", "killed"]
    """`processes`, `memory`, `disk`: it held more than it may. `killed`: by someone else, which is not its fault."""
    code: int
    """Exit status, or number of the signal."""
    seconds: float
    report: dict[str, Any] | None
    """The child's JSON answer; None where it gave none."""
    log: str


@dataclass
class ForkServer:
    """One warm process and the jobs it has run.

    Args:
        interpret: whether Triton's kernels are interpreted in its children (the choice is made at import).
        folder: private folder for job folders.
        warm: modules to import before the first fork, each with an optional `warm_up()`.
        environment: variables beside the clean environment.
        without: mechanisms of `policy.MECHANISMS` to leave out, to see what the others hold.
    """

    interpret: bool
    folder: Path
    warm: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    _process: subprocess.Popen[bytes] | None = None
    _control: socket.socket | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        """Start the process; it imports in the background, and jobs wait for it."""
        ours, theirs = socket.socketpair()
        environment = clean_environment() | dict(self.environment)
        environment["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # asking for a GPU must not spoil the forks
        if self.interpret:
            environment["TRITON_INTERPRET"] = "1"
        settings = json.dumps({"modules": self.warm, "without": self.without})
        with theirs:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "egg_graph.evaluator.host.fork_server_process",
                    str(theirs.fileno()),
                    settings,
                ],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=(self.folder / f"nursery-{'interpret' if self.interpret else 'compile'}.log").open("ab"),
                env=environment,
                cwd=self.folder,
            )
        self._control = ours

    def run(self, job: str, payload: Mapping[str, Any], folder: Path, limits: Limits) -> Ended:
        """Run `job` ("module:function") in a fresh child and wait for its end. Safe from several threads.

        Raises:
            InfrastructureError: if the fork server was lost; the next call starts a new one.
        """
        started = time.monotonic()
        with tempfile.TemporaryFile(dir=folder) as report:
            fate = self.launch(job, payload, folder, limits, report.fileno())
            try:
                end = await_fate(fate, limits.wall_seconds + GRACE)
            except InfrastructureError:
                self.stop()
                raise
            report.seek(0)
            return ended(end, report.read(64 << 20), folder, time.monotonic() - started)

    def launch(self, job: str, payload: Mapping[str, Any], folder: Path, limits: Limits, channel: int) -> socket.socket:
        """Fork a child that holds `channel` (a file or a socket); returns the socket that will tell its end."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "job.json").write_text(json.dumps({"job": job, "payload": payload}))
        order = {"folder": str(folder.resolve()), **asdict(limits)}
        ours, theirs = socket.socketpair()
        with theirs, self._lock:
            if self._process is None or self._process.poll() is not None:
                self.start()
            assert self._control is not None
            try:
                socket.send_fds(self._control, [json.dumps(order).encode() + b"\n"], [theirs.fileno(), channel])
            except OSError as error:
                ours.close()
                self._stop()
                raise InfrastructureError(f"the nursery of candidate processes was lost: {error}") from error
        return ours

    def stop(self) -> None:
        """End the process and, with it, every child it still has."""
        with self._lock:
            self._stop()

    def _stop(self) -> None:
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._control = self._process = None


def await_fate(fate: socket.socket, seconds: float) -> dict[str, Any]:
    """Wait for the fork server's word on how a child ended.

    Raises:
        InfrastructureError: if it says nothing in time, or has died.
    """
    with fate:
        fate.settimeout(seconds)
        data = b""
        try:
            while not data.endswith(b"\n"):
                piece = fate.recv(4096)
                if not piece:
                    raise InfrastructureError("the nursery of candidate processes died")
                data += piece
        except TimeoutError as error:
            raise InfrastructureError("the nursery of candidate processes does not answer") from error
    answer: dict[str, Any] = json.loads(data)
    return answer


def ended(end: Mapping[str, Any], report: bytes, folder: Path, seconds: float) -> Ended:
    """Put together how a child ended, what it reported and what it printed."""
    answer = None
    if report:
        try:
            answer = parse(report)
        except ValueError:
            answer = None  # cut off in the middle: as good as none
    return Ended(
        cause=end["cause"],
        code=end["code"],
        seconds=seconds,
        report=answer if isinstance(answer, dict) else None,
        log=read_tail(folder / "log.txt"),
    )


def read_tail(path: Path) -> str:
    """The last characters of a log, whatever bytes it holds."""
    try:
        file = open_file(path)
    except OSError:
        return ""  # the candidate removed it, or put something else in its place
    with file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - LOG_TAIL))
        return file.read().decode(errors="replace").strip()
