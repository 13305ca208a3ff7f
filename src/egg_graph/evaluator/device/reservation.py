"""Who may take how much of a GPU's memory: judges of one host reserve their part before they allocate it.

A reservation is a file that its owner holds locked (flock) as long as it counts; the kernel frees it when the owner
dies. Judges ask one after another: a large request that waits is not overtaken by small ones. What a judge keeps
between two answers is not reserved, and is little.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from egg_graph.evaluator.device.lease import PATIENCE, Lease, make_shared_folder, wait_until


@dataclass
class Reservations:
    """All reservations on one GPU.

    Args:
        lease: the GPU's lease, beside whose files the reservations lie.
        capacity: memory that can be reserved [bytes].
        patience: seconds to wait for room.
    """

    lease: Lease
    capacity: float
    patience: float = PATIENCE

    @contextmanager
    def reserved(self, nbytes: float) -> Iterator[float]:
        """Reserve memory for the block, as soon as there is room; yields the seconds waited.

        Args:
            nbytes: memory [bytes]; who wants more than there is gets all, and has the GPU's memory to itself.

        Raises:
            InfrastructureError: if there is no room in time.
        """
        started, wanted = time.monotonic(), min(nbytes, self.capacity)
        with self.lease.lock_file("reservations") as asking:
            self.lease.acquire(asking, fcntl.LOCK_EX)
            self._wait_for_room(wanted)
            own = self._folder / f"{os.getpid()}-{time.monotonic_ns()}"
            file = os.open(own, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            fcntl.flock(file, fcntl.LOCK_EX)
            os.write(file, f"{wanted:.0f}".encode())
        try:
            yield time.monotonic() - started
        finally:
            own.unlink(missing_ok=True)
            os.close(file)

    def _wait_for_room(self, wanted: float) -> None:
        def refusal() -> str:
            taken, whole, more = (x / float(1 << 30) for x in (self._taken, self.capacity, wanted))
            return (
                f"{self.lease.gpu}: no room for {more:.0f} GiB within {self.patience:.0f} s: other judges reserve "
                f"{taken:.0f} of {whole:.0f} GiB; run fewer at a time"
            )

        wait_until(lambda: wanted <= self.room, self.patience, "waits for memory of the GPU", refusal)

    @property
    def room(self) -> float:
        """Memory that nobody has reserved [bytes]."""
        return self.capacity - self._taken

    @property
    def others(self) -> bool:
        """Whether another process has reserved memory."""
        make_shared_folder(self._folder)
        own = f"{os.getpid()}-"
        return any(self._size(path) for path in self._folder.iterdir() if not path.name.startswith(own))

    @property
    def _taken(self) -> float:
        """Memory that is reserved now [bytes]."""
        make_shared_folder(self._folder)
        return sum(map(self._size, self._folder.iterdir()))

    def _size(self, path: Path) -> float:
        """Memory that one file reserves [bytes]; 0 of one whose owner has died or lets it go just now."""
        with suppress(FileNotFoundError, PermissionError), path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return float(file.read() or 0)
            path.unlink(missing_ok=True)
        return 0.0

    @property
    def _folder(self) -> Path:
        return self.lease.path("memory")
