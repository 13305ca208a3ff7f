"""Confinement of processes with what every Linux has: sessions, limits, and death signals."""

import ctypes
import os
import resource
import signal
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option})")


def die_with_parent() -> None:
    """This process is killed when the thread that started it ends."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> None:
    """Descendants whose parent dies become children of this process, wherever they hid."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def no_new_privileges() -> None:
    """No later exec can gain rights (setuid programs)."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def set_limits(*, memory_bytes: int | None, cpu_seconds: float, file_bytes: int) -> None:
    """Resource limits of this process and its descendants.

    Args:
        memory_bytes: address space beyond what is mapped now; None leaves it open.
        cpu_seconds: a second line behind the wall clock.
        file_bytes: of any one file it writes.
    """
    if memory_bytes is not None:
        mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (mapped + memory_bytes,) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_seconds) + 5,) * 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def kill_group(pid: int) -> None:
    """Kill the process group that a child leads; none left is fine."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def kill_tree(pid: int) -> None:
    """Kill a child and its process group."""
    kill_group(pid)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def kill_strays(keep: Collection[int]) -> None:
    """Kill children of this process other than `keep`: orphans of candidates, adopted."""
    for pid in children_of(os.getpid()):
        if pid not in keep:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def children_of(pid: int) -> list[int]:
    """Process ids of the direct children."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []
