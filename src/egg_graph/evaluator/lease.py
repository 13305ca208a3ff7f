"""One GPU, one measurement at a time: a lease across all processes and users of this host.

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
    def held(self) -> Iterator[float]:
        """Hold it for the length of the block; yields the seconds waited.

        Raises:
            InfrastructureError: if it is not free in time, or the lock file cannot be opened.
        """
        file = self._open()
        try:
            waited = self._acquire(file)
            yield waited
        finally:
            os.close(file)  # frees the lock

    def holder(self) -> int | None:
        """Process id of who holds it, where the kernel tells; None where nobody does or it is not told."""
        with suppress(OSError):
            inode = self._path.stat().st_ino
            for line in Path("/proc/locks").read_text().splitlines():
                words = line.split()
                if words[1] == "FLOCK" and words[5].endswith(f":{inode}"):
                    return int(words[4])
        return None

    @property
    def _path(self) -> Path:
        return self.folder / f"{self.gpu.replace('/', '_')}.lock"

    def _acquire(self, file: int) -> float:
        started = time.monotonic()
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return time.monotonic() - started
            if time.monotonic() - started >= self.patience:
                holder = self.holder()
                by = "" if holder is None else f" by process {holder}"
                raise InfrastructureError(
                    f"{self.gpu} is in use{by}: no turn within {self.patience:.0f} s; wait for it, or take another GPU"
                )
            time.sleep(POLL)

    def _open(self) -> int:
        """The lock file. Another user's is opened for reading, which suffices for a lock."""
        try:
            if not self.folder.is_dir():
                with suppress(FileExistsError):
                    self.folder.mkdir(parents=True)
                    self.folder.chmod(0o1777)
            with suppress(FileNotFoundError):
                return os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            with suppress(FileExistsError):
                file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW)
                os.fchmod(file, 0o644)
                return file
            return os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            raise InfrastructureError(f"the lease of {self.gpu} cannot be opened: {error}") from error
