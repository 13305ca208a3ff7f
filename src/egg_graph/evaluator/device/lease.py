"""Taking turns on one GPU: whoever measures has it alone, whoever only computes answers shares it.

A `Lease` is a lock (flock) on a file named after the GPU, across all processes and users of this host. The kernel frees
it when its holder dies. Processes that do not see the same folder (containers with a /tmp of their own) do not see each
other's leases.

Turns come in phases. Measurements stand in a line and go one directly after the other; then all who share the GPU
compute side by side for `QUANTUM` seconds at least, before the next measurement closes the gate: newcomers wait at it,
and whoever computes gives way between two steps. So a change of phase costs one step, and not every measurement does.
The end of the last measurement is the time of change of the lock's file.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from egg_graph.evaluator.progress import report_progress
from egg_graph.schema import InfrastructureError

FOLDER = Path("/tmp/egg-graph-leases")
"""Folder of the lock files. All users share it: it is world-writable and sticky, as /tmp itself."""
PATIENCE = 900.0
"""Seconds to wait for others' measurements."""
POLL = 0.005
"""Seconds between two attempts to take a lock."""
QUANTUM = 2.0
"""Seconds for which answers are computed after the last measurement, where any are, before the next measurement."""
GRACE = 0.03
"""Seconds after a measurement in which nobody begins to compute: the next measurement in line takes the GPU in them."""


def wait_until(ready: Callable[[], bool], patience: float, doing: str, refusal: Callable[[], str]) -> None:
    """Wait until something is ready; report `doing` once, if it is not ready at first.

    Args:
        ready: whether it is.
        patience: seconds to wait.
        doing: what this process waits for, in a few words.
        refusal: says why it is not ready.

    Raises:
        InfrastructureError: if it is not ready in time, with `refusal()`.
    """
    started, waiting = time.monotonic(), False
    while not ready():
        if time.monotonic() - started >= patience:
            raise InfrastructureError(refusal())
        if not waiting:
            report_progress(doing)
            waiting = True
        time.sleep(POLL)


def make_shared_folder(folder: Path) -> None:
    """Make a folder that all users may write to, unless it is there: sticky, as /tmp itself."""
    if not folder.is_dir():
        with suppress(FileExistsError):
            folder.mkdir(parents=True)
            folder.chmod(0o1777)


@dataclass
class Lease:
    """The right to use one GPU.

    Args:
        gpu: UUID of the GPU.
        folder: folder of the lock files.
        patience: seconds to wait for each lock.
        quantum: seconds for which answers are computed between measurements.
    """

    gpu: str
    folder: Path = FOLDER
    patience: float = PATIENCE
    quantum: float = QUANTUM

    @contextmanager
    def shared(self) -> Iterator[SharedTurn]:
        """Compute on the GPU for the length of the block, beside others who do; yields the turn.

        Raises:
            InfrastructureError: if there is no turn in time, or the lock file cannot be opened.
        """
        with self.lock_file("lock") as file, self.lock_file("gate") as gate:
            turn = SharedTurn(self, file, gate)
            turn.take()
            yield turn

    @contextmanager
    def in_line(self) -> Iterator[None]:
        """Be the next measurement for the length of the block. Raises as `shared`."""
        with self.lock_file("next") as file:
            self.acquire(file, fcntl.LOCK_EX)
            yield

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Measure: hold the GPU alone for the length of the block, inside of `in_line`. Raises as `shared`."""
        with self.lock_file("lock") as file, self.lock_file("gate") as gate:
            if not self._idle_before_due(file):
                self.acquire(gate, fcntl.LOCK_EX)
                self.acquire(file, fcntl.LOCK_EX)
            try:
                yield
            finally:
                with suppress(PermissionError):  # another user's file: the next phase begins at once
                    os.utime(file)

    def _idle_before_due(self, file: int) -> bool:
        """Take the lock once nobody computes; return False if somebody does until `QUANTUM` is over."""
        while not locked(file, fcntl.LOCK_EX):
            if seconds_since_measurement(file) >= self.quantum:
                return False
            time.sleep(POLL)
        return True

    @contextmanager
    def lock_file(self, kind: str) -> Iterator[int]:
        """Open one of the GPU's lock files for the block, whose end frees its lock; yields the file descriptor.

        Raises:
            InfrastructureError: if it cannot be opened.
        """
        file = self._open(self.path(kind))
        try:
            yield file
        finally:
            os.close(file)

    def path(self, kind: str) -> Path:
        """The GPU's file of this kind; `lock` is the lease's own."""
        return self.folder / f"{self.gpu.replace('/', '_')}.{kind}"

    def holders(self) -> tuple[int, ...]:
        """Return the process ids of all holders, this process included; empty where /proc/locks cannot be read."""
        with suppress(OSError):
            inode = self.path("lock").stat().st_ino
            words = (line.split() for line in Path("/proc/locks").read_text().splitlines())
            return tuple(int(w[4]) for w in words if w[1] == "FLOCK" and w[5].endswith(f":{inode}"))
        return ()

    def acquire(self, file: int, how: int) -> None:
        """Lock one of the GPU's lock files, as soon as it is free.

        Raises:
            InfrastructureError: if it is not free in time.
        """
        self.wait_for_turn(lambda: locked(file, how))

    def wait_for_turn(self, taken: Callable[[], bool]) -> None:
        """Wait until a turn is taken. Raises as `acquire`."""

        def refusal() -> str:
            holders = self.holders()
            by = f" by process {holders[0]}" if holders else ""
            return f"{self.gpu} is in use{by}: no turn within {self.patience:.0f} s; wait for it, or take another GPU"

        wait_until(taken, self.patience, "waits for its turn on the GPU", refusal)

    def _open(self, path: Path) -> int:
        """Open the lock file. Another user's file is opened for reading, which suffices for a lock."""
        try:
            make_shared_folder(self.folder)
            with suppress(FileNotFoundError):
                return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            with suppress(FileExistsError):
                file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW)
                os.utime(file, (0, 0))  # no measurement yet
                os.fchmod(file, 0o666)  # any user's measurement tells its end
                return file
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            raise InfrastructureError(f"the lease of {self.gpu} cannot be opened: {error}") from error


@dataclass
class SharedTurn:
    """A turn to compute.

    Args:
        lease: whose locks they are.
        file, gate: file descriptors of its lock and of its gate.
    """

    lease: Lease
    file: int
    gate: int

    def take(self) -> None:
        """Wait for the turn, behind measurements that wait. Raises as `Lease.acquire`."""
        self.lease.wait_for_turn(self._taken)

    def _taken(self) -> bool:
        if seconds_since_measurement(self.file) < GRACE or self.wanted:
            return False
        return locked(self.file, fcntl.LOCK_SH)

    @property
    def wanted(self) -> bool:
        """Whether a measurement has closed the gate."""
        if not locked(self.gate, fcntl.LOCK_SH):
            return True
        fcntl.flock(self.gate, fcntl.LOCK_UN)
        return False

    def let_go(self) -> None:
        """Let others have the GPU, until `take`."""
        fcntl.flock(self.file, fcntl.LOCK_UN)


def locked(file: int, how: int) -> bool:
    """Lock a file if it is free; return whether it was."""
    with suppress(BlockingIOError):
        fcntl.flock(file, how | fcntl.LOCK_NB)
        return True
    return False


def seconds_since_measurement(file: int) -> float:
    """Seconds since the end of the last measurement, by the lock's file; large where there was none.

    A clock that was set back counts as no measurement.
    """
    seconds = time.time() - os.fstat(file).st_mtime
    return seconds if seconds >= 0.0 else float("inf")
