"""One GPU, one measurement at a time: a lease across all processes and users of this host.

Who only computes shares it; who measures has it alone. Both pass a gate, at which a measurement waits first in line, so
that a stream of newcomers cannot keep it waiting.

It is a lock (flock) on a file named after the GPU, so the kernel frees it when its holder dies. Processes that do not
see the same folder (containers with a /tmp of their own) do not see each other's leases.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from egg_graph.schema import InfrastructureError

FOLDER = Path("/tmp/egg-graph-leases")
"""Shared by all users: world-writable and sticky, as /tmp itself."""
PATIENCE = 900.0
"""Seconds to wait for others' measurements."""
POLL = 0.02


@dataclass
class Lease:
    """The right to use one GPU alone.

    Args:
        gpu: its UUID.
        folder: where the lock files lie.
        patience: seconds to wait for it.
    """

    gpu: str
    folder: Path = FOLDER
    patience: float = PATIENCE

    @contextmanager
    def held(self, *, shared: bool = False) -> Iterator[float]:
        """Hold it for the length of the block; yields the seconds waited.

        Args:
            shared: beside others who share it; alone if not.

        Raises:
            InfrastructureError: if it is not free in time, or the lock file cannot be opened.
        """
        started = time.monotonic()
        file, gate = self._open(self._path), self._open(self._path.with_suffix(".gate"))
        try:
            self._acquire(gate, fcntl.LOCK_EX)
            self._acquire(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
            fcntl.flock(gate, fcntl.LOCK_UN)
            yield time.monotonic() - started
        finally:
            os.close(file)  # frees the locks
            os.close(gate)

    def holders(self) -> tuple[int, ...]:
        """Process ids of all who hold it, where the kernel tells them; this one among them if it does."""
        with suppress(OSError):
            inode = self._path.stat().st_ino
            words = (line.split() for line in Path("/proc/locks").read_text().splitlines())
            return tuple(int(w[4]) for w in words if w[1] == "FLOCK" and w[5].endswith(f":{inode}"))
        return ()

    @property
    def _path(self) -> Path:
        return self.folder / f"{self.gpu.replace('/', '_')}.lock"

    def _acquire(self, file: int, how: int) -> None:
        started = time.monotonic()
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(file, how | fcntl.LOCK_NB)
                return
            if time.monotonic() - started >= self.patience:
                holders = self.holders()
                by = f" by process {holders[0]}" if holders else ""
                raise InfrastructureError(
                    f"{self.gpu} is in use{by}: no turn within {self.patience:.0f} s; wait for it, or take another GPU"
                )
            time.sleep(POLL)

    def _open(self, path: Path) -> int:
        """The lock file. Another user's is opened for reading, which suffices for a lock."""
        try:
            if not self.folder.is_dir():
                with suppress(FileExistsError):
                    self.folder.mkdir(parents=True)
                    self.folder.chmod(0o1777)
            with suppress(FileNotFoundError):
                return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            with suppress(FileExistsError):
                file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW)
                os.fchmod(file, 0o644)
                return file
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            raise InfrastructureError(f"the lease of {self.gpu} cannot be opened: {error}") from error
