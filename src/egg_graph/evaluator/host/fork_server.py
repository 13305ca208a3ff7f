"""The judge's side of a fork server: a warm process that forks one confined child per job.

Importing torch and triton takes seconds; forking a process that has imported them takes milliseconds. The fork server
never runs candidate code and never touches CUDA, so every child starts clean.
"""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from egg_graph.evaluator.host.environment import clean_environment
from egg_graph.evaluator.wire.untrusted import open_file, parse
from egg_graph.schema import InfrastructureError

LOG_TAIL = 4000
"""Last characters of a child's output that are kept."""
GRACE = 10.0
"""Seconds beyond a job's own limit after which the fork server itself counts as lost."""
PAUSE, GO_ON, KILL = b"p", b"g", b"k"
"""Sent on an exit socket, they stop a job for a while, let it go on, and end it; anything else ends it, too."""
GLANCE = 0.05
"""Seconds between two looks at a child that is waited for: at what it uses, and whether it has to give way."""


@dataclass(frozen=True)
class Limits:
    """What one job may use."""

    wall_seconds: float = 60.0
    memory_bytes: int | None = 6 << 30
    """Address space beyond what the fork server holds; None sets no limit (CUDA's driver maps more than it uses)."""
    file_bytes: int = 1 << 30
    """Size of any one file."""
    processes: int = 64
    """Processes at a time, the job's own included."""
    threads: int = 512
    """Threads of all its processes at a time."""
    resident_bytes: int = 24 << 30
    """Private memory of all its processes together."""
    disk_bytes: int = 8 << 30
    """Bytes it may add to its folder, unlinked open files included; at most half of the free space is granted."""
    tools: bool = False
    """Whether NVIDIA's profiler or sanitizer runs in the job. These need local sockets, and any right to hardware
    counters that the process has."""


@dataclass(frozen=True)
class ChildExit:
    """How a child ended, and what it reported. The report comes from an untrusted process."""

    cause: Literal["exit", "signal", "timeout", "processes", "memory", "disk", "killed"]
    """`processes`, `memory`, `disk`: the limit it exceeded. `killed`: somebody else killed it, which is not its
    fault."""
    code: int
    """Exit status, or signal number."""
    seconds: float
    report: dict[str, Any] | None
    """The child's JSON answer; None if it gave none."""
    log: str
    """The last characters that the child printed."""


@dataclass
class ForkServer:
    """One warm process and the jobs it has run.

    Args:
        interpret: whether children interpret Triton's kernels (Triton decides at import).
        folder: private folder for the log and for job folders.
        warm: modules to import before the first fork; a module may define `warm_up()`, which is then called.
        environment: variables to add to the clean environment.
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
        """Start the process. It imports in the background; jobs wait for it."""
        ours, theirs = socket.socketpair()
        environment = clean_environment() | dict(self.environment)
        environment["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # PyTorch's other check would open CUDA, which spoils forks
        if self.interpret:
            environment["TRITON_INTERPRET"] = "1"
        settings = json.dumps({"modules": self.warm, "without": self.without})
        module = "egg_graph.evaluator.host.fork_server_process"
        log = self.folder / f"fork-server-{'interpret' if self.interpret else 'compile'}.log"
        with theirs, log.open("ab") as stderr:
            arguments = [sys.executable, "-P", "-m", module, str(theirs.fileno()), settings]
            self._process = _popen_of_its_own(
                arguments, pass_fds=(theirs.fileno(),), stderr=stderr, env=environment, cwd=self.folder
            )
        self._control = ours

    def run(self, job: str, payload: Mapping[str, Any], folder: Path, limits: Limits) -> ChildExit:
        """Run `job` ("module:function") in a fresh child and wait for its exit. Safe from several threads.

        Args:
            job, payload, folder, limits: as for `launch`.

        Raises:
            InfrastructureError: if the fork server was lost; the next call starts a new one.
        """
        started = time.monotonic()
        with tempfile.TemporaryFile(dir=folder) as report:
            exit_socket = self.launch(job, payload, folder, limits, report.fileno())
            try:
                status = wait_for_exit(exit_socket, limits.wall_seconds + GRACE)
            except InfrastructureError:
                self.stop()
                raise
            report.seek(0)
            return collect_exit(status, report.read(64 << 20), folder, time.monotonic() - started)

    def launch(self, job: str, payload: Mapping[str, Any], folder: Path, limits: Limits, channel: int) -> socket.socket:
        """Fork a child.

        What it is to do reaches it in memory: other processes of the same candidate may be at work in the folder.

        Args:
            job: "module:function".
            payload: the function's first argument.
            folder: the job's folder; made if missing.
            limits: what the job may use.
            channel: file descriptor (file or socket) that the child gets, to report on.

        Returns:
            The exit socket: it receives how the child ended. `PAUSE` and `GO_ON` stop the child for a while; to send
            anything else on it, or to close it, ends the child.

        Raises:
            InfrastructureError: if the fork server was lost.
        """
        folder.mkdir(parents=True, exist_ok=True)
        request = {"folder": str(folder.resolve()), **asdict(limits)}
        ours, theirs = socket.socketpair()
        with theirs, os.fdopen(os.memfd_create("job"), "wb") as task, self._lock:
            task.write(json.dumps({"job": job, "payload": payload}).encode())
            task.flush()
            task.seek(0)
            if self._process is None or self._process.poll() is not None:
                self.start()
            assert self._control is not None
            try:
                passed = [theirs.fileno(), channel, task.fileno()]
                socket.send_fds(self._control, [json.dumps(request).encode() + b"\n"], passed)
            except OSError as error:
                ours.close()
                self._stop()
                raise InfrastructureError(f"the fork server of candidate processes was lost: {error}") from error
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


def _popen_of_its_own(arguments: list[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a process that dies with this one, in a thread that lives as long as it does.

    The kernel takes the end of the thread that started it for the end of its parent, and the caller's may end sooner.
    """
    started: Future[subprocess.Popen[bytes]] = Future()

    def keep() -> None:
        try:
            process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, **options)
        except BaseException as error:  # noqa: BLE001 - raised in the caller
            started.set_exception(error)
            return
        started.set_result(process)
        process.wait()

    threading.Thread(target=keep, name="fork-server", daemon=True).start()
    return started.result()


@contextmanager
def stopped(exit_socket: socket.socket) -> Iterator[None]:
    """Stop a child and its descendants for the block; what it has queued on a GPU is still done."""
    with suppress(OSError):  # it has ended, and its end is told
        exit_socket.sendall(PAUSE)
    try:
        yield
    finally:
        with suppress(OSError):
            exit_socket.sendall(GO_ON)


def wait_for_exit(exit_socket: socket.socket, seconds: float) -> dict[str, Any]:
    """Wait until the fork server reports how a child ended; closes the socket.

    Args:
        exit_socket: of the child.
        seconds: time to wait.

    Returns:
        `cause` and `code`, as in `ChildExit`.

    Raises:
        InfrastructureError: if no report comes in time, or the fork server has died.
    """
    until, data = time.monotonic() + seconds, b""
    with exit_socket:
        while not data.endswith(b"\n"):
            left = until - time.monotonic()
            if left <= 0:
                raise InfrastructureError("the fork server of candidate processes does not answer")
            ready, _, _ = select.select([exit_socket], [], [], left)
            if ready:
                piece = exit_socket.recv(4096)
                if not piece:
                    raise InfrastructureError("the fork server of candidate processes died")
                data += piece
    status: dict[str, Any] = json.loads(data)
    return status


def collect_exit(status: Mapping[str, Any], report: bytes, folder: Path, seconds: float) -> ChildExit:
    """Combine how a child ended, what it reported and what it printed."""
    answer = None
    if report:
        try:
            answer = parse(report)
        except ValueError:
            answer = None  # cut off in the middle: as good as none
    return ChildExit(
        cause=status["cause"],
        code=status["code"],
        seconds=seconds,
        report=answer if isinstance(answer, dict) else None,
        log=read_tail(folder / "log.txt"),
    )


def read_tail(path: Path) -> str:
    """Return the last characters of a log, whatever bytes it holds; empty if it is no regular file."""
    try:
        file = open_file(path)
    except OSError:
        return ""  # the candidate removed it, or put something else in its place
    with file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - LOG_TAIL))
        return file.read().decode(errors="replace").strip()
