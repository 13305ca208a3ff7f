"""Who may take how much of a GPU's memory: judges of one host reserve their part before they allocate it.

A reservation is a file that its owner holds locked (flock) as long as it counts; the kernel frees it when the owner
dies. A judge that needs little for now reserves nothing, and is known to be at work by its file. Requests stand in a
line, so that small ones do not keep a large one waiting without end. A small request does not stand behind a large one
while all small ones together leave the large ones their part of the GPU; they wait only for a request of more than that
part. What a judge keeps between two answers is not reserved, and is little.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from egg_graph.evaluator.device.lease import PATIENCE, Lease, locked, make_shared_folder, wait_until

SMALL = 0.125
"""Largest part of the memory that a small request wants."""
SMALL_TOTAL = 0.35
"""Part of the memory that all small reservations may take together while a larger request waits."""


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
    def reserved(self, nbytes: float) -> Iterator[None]:
        """Reserve memory for the block, as soon as there is room.

        Args:
            nbytes: memory [bytes]; who wants more than there is gets all, and has the GPU's memory to itself. Who wants
                none is only known to be at work.

        Raises:
            InfrastructureError: if there is no room in time.
        """
        own, file = self._reserve(min(nbytes, self.capacity))
        try:
            yield
        finally:
            own.unlink(missing_ok=True)
            os.close(file)

    def _reserve(self, wanted: float) -> tuple[Path, int]:
        """Wait for room and take it; returns the reservation's file, and its descriptor, whose lock is held."""
        with ExitStack() as stack:
            line, whole, writing = (
                stack.enter_context(self.lease.lock_file(f"reservations-{kind}"))
                for kind in ("line", "whole", "writing")
            )
            made: list[tuple[Path, int]] = []
            first = False

            def granted() -> bool:
                nonlocal first
                first = first or not wanted or locked(line, fcntl.LOCK_EX)
                if first and wanted > (1 - SMALL_TOTAL) * self.capacity:
                    locked(whole, fcntl.LOCK_EX)  # small requests keep out, too
                if not locked(writing, fcntl.LOCK_EX):
                    return False
                try:
                    if wanted <= self.room and (first or self._is_granted_beside(wanted, whole)):
                        made.append(self._write(wanted))
                finally:
                    fcntl.flock(writing, fcntl.LOCK_UN)
                return bool(made)

            wait_until(granted, self.patience, "waits for memory of the GPU", lambda: self._refusal(wanted))
        return made[0]

    def _is_granted_beside(self, wanted: float, whole: int) -> bool:
        """Whether a request that is not the first in line leaves those before it what is theirs."""
        if wanted > SMALL * self.capacity or not locked(whole, fcntl.LOCK_SH):
            return False
        fcntl.flock(whole, fcntl.LOCK_UN)
        small = sum(size for size in self._sizes if size <= SMALL * self.capacity)
        return small + wanted <= SMALL_TOTAL * self.capacity

    def _write(self, wanted: float) -> tuple[Path, int]:
        """Write a reservation, while nobody else does; what dead judges left goes."""
        for path in self._folder.iterdir():
            with suppress(PermissionError):  # another user's
                if self._size(path) is None:
                    path.unlink(missing_ok=True)
        own = self._folder / f"{os.getpid()}-{time.monotonic_ns()}"
        file = os.open(own, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        fcntl.flock(file, fcntl.LOCK_EX)
        os.write(file, f"{wanted:.0f}".encode())
        return own, file

    def _refusal(self, wanted: float) -> str:
        taken, whole, more = (x / float(1 << 30) for x in (self.capacity - self.room, self.capacity, wanted))
        return (
            f"{self.lease.gpu}: no room for {more:.0f} GiB within {self.patience:.0f} s: other judges reserve "
            f"{taken:.0f} of {whole:.0f} GiB; run fewer at a time"
        )

    @property
    def room(self) -> float:
        """Memory that nobody has reserved [bytes]."""
        return self.capacity - sum(self._sizes)

    @property
    def others(self) -> bool:
        """Whether another process is at work, with memory or without."""
        make_shared_folder(self._folder)
        own = f"{os.getpid()}-"
        return any(self._size(path) is not None for path in self._folder.iterdir() if not path.name.startswith(own))

    @property
    def _sizes(self) -> list[float]:
        """Size of each reservation [bytes]."""
        make_shared_folder(self._folder)
        return [self._size(path) or 0.0 for path in self._folder.iterdir()]

    def _size(self, path: Path) -> float | None:
        """Memory that one file reserves [bytes]; None of one whose owner has died or lets it go just now."""
        with suppress(FileNotFoundError, PermissionError), path.open("rb") as file:
            if not locked(file.fileno(), fcntl.LOCK_SH):
                return float(file.read() or 0)
        return None

    @property
    def _folder(self) -> Path:
        return self.lease.path("memory")
