"""Confinement with what every Linux has: resource limits, dropped capabilities, death signals, process groups."""

import ctypes
import os
import resource
import signal
import struct
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from egg_graph.evaluator.sandbox.procfs import children_of

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAPBSET_READ = 23
_PR_CAPBSET_DROP = 24
_CAP_SETPCAP = 8
_CAP_SYS_ADMIN = 21
_CAPABILITIES_VERSION = 0x20080522
OPEN_FILES = 1024
"""Open files per process."""
TASKS_A_THREAD = 2
"""A user may have this many processes and threads in a fork server's own user namespace, for each thread that one job
may have: jobs run side by side. The kernel does not hold root to it."""


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option})")


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that started it ends."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def become_subreaper() -> None:
    """Become the parent of every descendant whose own parent dies."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def no_new_privileges() -> None:
    """Keep setuid programs from gaining rights in this process and its descendants."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def hide_memory() -> None:
    """Keep processes of the same user from tracing this one and reading its memory, environment or open files."""
    _prctl(_PR_SET_DUMPABLE, 0)


def drop_capabilities(*, keep_counters: bool = False) -> None:
    """Drop every capability of this process and its descendants.

    Args:
        keep_counters: keep CAP_SYS_ADMIN if it is there: NVIDIA's driver demands it from readers of hardware counters.
    """
    status = Path("/proc/self/status").read_text()
    effective = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff:"))
    kept = effective & (1 << _CAP_SYS_ADMIN) if keep_counters else 0
    libc = ctypes.CDLL(None, use_errno=True)
    if effective >> _CAP_SETPCAP & 1:
        for capability in range(64):
            if not kept >> capability & 1 and libc.prctl(_PR_CAPBSET_READ, capability, 0, 0, 0) == 1:
                _prctl(_PR_CAPBSET_DROP, capability)
    head = ctypes.create_string_buffer(struct.pack("Ii", _CAPABILITIES_VERSION, 0))
    data = ctypes.create_string_buffer(struct.pack("6I", kept, kept, 0, 0, 0, 0))
    if libc.capset(head, data) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def prefer_for_oom_kill() -> None:
    """Have the kernel kill this process and its descendants first when memory runs out."""
    Path("/proc/self/oom_score_adj").write_text("700")


def cpu_limit(wall_seconds: float) -> int:
    """Return the limit on processor time [s] for a limit on wall-clock time [s]: a backstop behind the wall clock."""
    return int(4 * wall_seconds) + 5


def set_limits(*, memory_bytes: int | None, cpu_seconds: int, file_bytes: int, tasks: int | None = None) -> None:
    """Set resource limits of this process and its descendants.

    Args:
        memory_bytes: address space beyond what is mapped now; None sets no limit.
        cpu_seconds: processor time until SIGXCPU; SIGKILL follows 2 s later.
        file_bytes: size of any one file it writes.
        tasks: processes and threads of this user (in this user namespace); None leaves the limit as it is.
    """
    if memory_bytes is not None:
        mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (mapped + memory_bytes,) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 2))
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _lower(resource.RLIMIT_NOFILE, OPEN_FILES)
    if tasks is not None:
        _lower(resource.RLIMIT_NPROC, tasks)


def _lower(limit: int, value: int) -> None:
    hard = resource.getrlimit(limit)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(limit, (value, value))


def kill_group(pid: int) -> None:
    """Kill the process group that a child leads, if any of it is left."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def kill_strays(keep: Collection[int]) -> None:
    """Kill the children of this process that are not in `keep`: orphans left by candidates."""
    for pid in children_of(os.getpid()):
        if pid not in keep:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
