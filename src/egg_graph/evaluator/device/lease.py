"""Taking turns on one GPU: whoever measures has it alone, whoever only computes answers shares it.

A `Lease` is a lock (flock) on a file named after the GPU, across all processes and users of this host. The kernel frees
it when its holder dies. Processes that do not see the same folder (containers with a /tmp of their own) do not see each
other's leases. Both kinds of holder first pass a gate lock, at which a waiting measurement is next in line: a stream of
newcomers that share cannot keep it waiting. Whoever shares the GPU for long gives way to it between two steps.
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
        patience: seconds to wait for each of the two locks.
    """

    gpu: str
    folder: Path = FOLDER
    patience: float = PATIENCE

    @contextmanager
    def held(self, *, shared: bool = False) -> Iterator[Turn]:
        """Hold the lease for the length of the block; yields the turn, which knows the seconds waited.

        Args:
            shared: hold it beside others who share it, rather than alone.

        Raises:
            InfrastructureError: if it is not free in time, or the lock file cannot be opened.
        """
        with self.lock_file("lock") as file, self.lock_file("gate") as gate:
            turn = Turn(self, file, gate, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
            turn.take()
            yield turn

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

        def locked() -> bool:
            with suppress(BlockingIOError):
                fcntl.flock(file, how | fcntl.LOCK_NB)
                return True
            return False

        def refusal() -> str:
            holders = self.holders()
            by = f" by process {holders[0]}" if holders else ""
            return f"{self.gpu} is in use{by}: no turn within {self.patience:.0f} s; wait for it, or take another GPU"

        wait_until(locked, self.patience, "waits for its turn on the GPU", refusal)

    def _open(self, path: Path) -> int:
        """Open the lock file. Another user's file is opened for reading, which suffices for a lock."""
        try:
            make_shared_folder(self.folder)
            with suppress(FileNotFoundError):
                return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            with suppress(FileExistsError):
                file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW)
                os.fchmod(file, 0o644)
                return file
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            raise InfrastructureError(f"the lease of {self.gpu} cannot be opened: {error}") from error


@dataclass
class Turn:
    """A lease that is held.

    Args:
        lease: whose locks they are.
        file, gate: file descriptors of its two lock files.
        how: kind of the lock on `file` (`fcntl.LOCK_SH` or `fcntl.LOCK_EX`).
    """

    lease: Lease
    file: int
    gate: int
    how: int
    waited: float = 0.0
    """Seconds waited so far."""

    def take(self) -> None:
        """Wait for the turn: first at the gate, then for the holders before. Raises as `Lease.acquire`."""
        started = time.monotonic()
        self.lease.acquire(self.gate, fcntl.LOCK_EX)
        self.lease.acquire(self.file, self.how)
        fcntl.flock(self.gate, fcntl.LOCK_UN)
        self.waited += time.monotonic() - started

    @property
    def wanted(self) -> bool:
        """Whether somebody waits at the gate."""
        try:
            fcntl.flock(self.gate, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        fcntl.flock(self.gate, fcntl.LOCK_UN)
        return False

    def let_go(self) -> None:
        """Let others have the GPU, until `take`."""
        fcntl.flock(self.file, fcntl.LOCK_UN)
