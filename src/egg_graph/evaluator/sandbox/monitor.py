"""What a job holds at this moment, read from /proc by the fork server: processes, memory and disk."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

MANY_FILES = 50_000
"""A folder with more entries is not looked through further: it counts as full."""
PAGE = os.sysconf("SC_PAGE_SIZE")


def family(roots: Iterable[int], most: int) -> list[int]:
    """Process ids of these processes and all their descendants, at most `most` of them."""
    found: list[int] = []
    waiting = [pid for pid in roots if pid]
    while waiting and len(found) < most:
        pid = waiting.pop()
        found.append(pid)
        waiting += children_of(pid)
    return found


def children_of(pid: int) -> list[int]:
    """Direct children, whichever of its threads started them."""
    children = []
    with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(FileNotFoundError, ProcessLookupError):
                children += [int(word) for word in Path(f"/proc/{pid}/task/{thread}/children").read_text().split()]
    return children


def threads(pids: Iterable[int]) -> int:
    """Threads of these processes, together."""
    total = 0
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):
            total += os.stat(f"/proc/{pid}/task").st_nlink - 2
    return total


def private_bytes(pids: Iterable[int]) -> int:
    """Memory that these processes hold and share with no file."""
    total = 0
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):
            _, resident, shared, *_ = Path(f"/proc/{pid}/statm").read_text().split()
            total += (int(resident) - int(shared)) * PAGE
    return total


def stored_bytes(folder: Path, pids: Iterable[int] = ()) -> float:
    """Disk, and memory that poses as files: all in the folder, and open files without a name."""
    return _in_folder(folder) + sum(_nameless(pids).values())


def _in_folder(folder: Path) -> float:
    total, entries, waiting = 0, 0, [str(folder)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as inside:
                for entry in inside:
                    entries += 1
                    if entries > MANY_FILES:
                        return float("inf")
                    with suppress(FileNotFoundError):
                        total += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except (FileNotFoundError, NotADirectoryError):
            continue  # gone since it was seen
    return total


def _nameless(pids: Iterable[int]) -> dict[tuple[int, int], int]:
    """Sizes of open files that no folder holds (deleted, or made by memfd_create), each once."""
    sizes: dict[tuple[int, int], int] = {}
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            for name in os.listdir(f"/proc/{pid}/fd"):
                with suppress(OSError):
                    seen = os.stat(f"/proc/{pid}/fd/{name}")
                    if stat.S_ISREG(seen.st_mode) and seen.st_nlink == 0:
                        sizes[seen.st_dev, seen.st_ino] = seen.st_blocks * 512
    return sizes


def out_of_memory_kills() -> int:
    """How often the kernel has killed for memory since it started; 0 where it does not tell."""
    with suppress(OSError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0
