"""Taking turns on one GPU: whoever measures has it alone, whoever only computes answers shares it.

A `Lease` is a lock (flock) on a file named after the GPU, across all processes and users of this host. The kernel frees
it when its holder dies. Processes that do not see the same folder (containers with a /tmp of their own) do not see each
other's leases. Both kinds of holder first pass a gate lock, at which a waiting measurement is next in line: a stream of
newcomers that share cannot keep it waiting.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from egg_graph.evaluator.progress import report_progress
from egg_graph.evaluator.spending import spending_on
from egg_graph.schema import InfrastructureError

FOLDER = Path("/tmp/egg-graph-leases")
"""Folder of the lock files. All users share it: it is world-writable and sticky, as /tmp itself."""
PATIENCE = 900.0
"""Seconds to wait for others' measurements."""
POLL = 0.02
"""Seconds between two attempts to take a lock."""


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
    def held(self, *, shared: bool = False) -> Iterator[float]:
        """Hold the lease for the length of the block; yields the seconds waited.

        Args:
            shared: hold it beside others who share it, rather than alone.

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
        """Return the process ids of all holders, this process included; empty where /proc/locks cannot be read."""
        with suppress(OSError):
            inode = self._path.stat().st_ino
            words = (line.split() for line in Path("/proc/locks").read_text().splitlines())
            return tuple(int(w[4]) for w in words if w[1] == "FLOCK" and w[5].endswith(f":{inode}"))
        return ()

    @property
    def _path(self) -> Path:
        return self.folder / f"{self.gpu.replace('/', '_')}.lock"

    def _acquire(self, file: int, how: int) -> None:
        started, waiting = time.monotonic(), False
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
            if not waiting:
                report_progress("waits for its turn on the GPU")
                waiting = True
            time.sleep(POLL)

    def _open(self, path: Path) -> int:
        """Open the lock file. Another user's file is opened for reading, which suffices for a lock."""
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


@dataclass
class GpuAccess:
    """One judge's turns on one GPU.

    Args:
        lease: the GPU's lease; None where there is no GPU, and nothing to wait for.
    """

    lease: Lease | None = None
    alone: bool = False
    """Whether the judge is inside `alone_throughout`; `computing` and `measuring` then wait for nothing."""
    waited: float = 0.0
    """Total seconds spent waiting for others."""
    crowded: bool = False
    """Whether others were seen on the GPU while answers were computed."""

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Share the GPU with others who compute answers, while nobody measures."""
        with self._holding(shared=True):
            self._look_for_others()
            try:
                yield
            finally:
                self._look_for_others()

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """Hold the GPU alone, to time something."""
        with self._holding(shared=False):
            yield

    @contextmanager
    def alone_throughout(self) -> Iterator[None]:
        """Hold the GPU alone for a whole evaluation, answers included: to repeat what others may have disturbed."""
        with self._holding(shared=False):
            self.alone = True
            try:
                yield
            finally:
                self.alone = False

    @contextmanager
    def _holding(self, *, shared: bool) -> Iterator[None]:
        if self.lease is None or self.alone:
            yield
            return
        with ExitStack() as stack:
            with spending_on("waiting"):
                self.waited += stack.enter_context(self.lease.held(shared=shared))
            yield

    def _look_for_others(self) -> None:
        if self.lease is not None and not self.alone:
            self.crowded |= any(holder != os.getpid() for holder in self.lease.holders())


def access_to(device: str) -> GpuAccess:
    """Return access to PyTorch's first GPU if `device` is `"gpu"`; else access that waits for nothing."""
    import torch

    if device != "gpu":
        return GpuAccess()
    return GpuAccess(Lease(f"GPU-{torch.cuda.get_device_properties(0).uuid}"))
