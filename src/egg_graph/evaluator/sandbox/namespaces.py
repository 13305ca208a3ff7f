"""Linux namespaces: a view of processes, of /proc and of the network that holds nothing but the candidate's own.

Standard library alone: `python namespaces.py processes network` prints what this machine allows of these.
Two doors: `enclose`, once, for the fork server, and per job `Cell` in the fork server with `settle` in its child.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import shutil
import signal
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

_NEW_MOUNTS = 0x00020000
_NEW_IPC = 0x08000000
_NEW_USER = 0x10000000
_NEW_PIDS = 0x20000000
_NEW_NETWORK = 0x40000000
_RECURSIVE_PRIVATE = 0x4000 | 0x40000
_NOSUID_NODEV_NOEXEC = 0x2 | 0x4 | 0x8
_READ_ONLY = 0x1
_BIND = 0x1000
_REMOUNT = 0x20
_PR_SET_PDEATHSIG = 1
_CAP_SYS_ADMIN = 21
SHARED_MEMORY = "/dev/shm"
"""CUDA's driver writes there."""


@dataclass(frozen=True)
class Space:
    """Which namespaces a fork server and its children live in."""

    user: bool = False
    """A user namespace first: how an ordinary user comes by the others."""
    processes: bool = False
    """Process ids, /proc, mounts and System V IPC of its own for every job."""
    network: bool = False
    """No interface but a loopback, shared by the jobs of one fork server."""


def find_space(*, processes: bool = True, network: bool = True) -> Space:
    """The most that this kernel grants of what is wanted; tried in throw-away children."""
    users = (False, True) if privileged() else (True,)
    wanted = [(processes, network), (processes, False), (False, network)]
    for with_processes, with_network in dict.fromkeys(wanted):
        for user in users:
            space = Space(user, with_processes, with_network)
            if (with_processes or with_network) and _works(space):
                return space
    return Space()


def privileged() -> bool:
    """Whether this process may make namespaces without a user namespace (CAP_SYS_ADMIN)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> _CAP_SYS_ADMIN & 1)
    return False


def enclose(space: Space, forget: Callable[[], None] = lambda: None) -> None:
    """Move this process into `space`. With its own process ids, what returns is a child of the caller, its process 1:
    the kernel ends everything inside when it ends. The caller waits for it, and ends as it does.

    Args:
        space: what `find_space` found.
        forget: run in the process that only waits, to close what it must not hold.

    Raises:
        OSError: if the kernel refuses after all.
    """
    flags = (
        space.user * _NEW_USER | space.processes * (_NEW_PIDS | _NEW_MOUNTS | _NEW_IPC) | space.network * _NEW_NETWORK
    )
    if flags:
        uid, gid = os.getuid(), os.getgid()
        _call("unshare", flags)
        if space.user:
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
            Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    if space.network:
        _raise_loopback()
    if not space.processes:
        return
    pid = os.fork()
    if pid:
        forget()
        _, status = os.waitpid(pid, 0)
        os._exit(os.waitstatus_to_exitcode(status) & 0x7F)
    _call("prctl", _PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    _own_proc()


class Cell:
    """Process ids for one job. `guard` is their process 1: killing it kills every process inside, however it hid."""

    def __init__(self) -> None:
        sleep = shutil.which("sleep") or "/bin/sleep"
        own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self.child = -1
        """As `os.fork` answers: 0 in the child, which is inside."""
        try:
            _call("unshare", _NEW_PIDS)
            self.guard = os.posix_spawn(sleep, ["sleep", "infinity"], {}, setsid=True)
            self.child = os.fork()
        finally:
            if self.child != 0:
                _call("setns", own, _NEW_PIDS)
            os.close(own)


def settle(*, seal_proc: bool = False) -> None:
    """In a job's process: mounts and IPC of its own, a /proc that shows its own processes, no sockets in /run,
    and shared memory of its own.

    Args:
        seal_proc: whether all of /proc that is not of a process becomes read-only: the kernel's settings, which root
            could otherwise change.
    """
    _call("unshare", _NEW_MOUNTS | _NEW_IPC)
    _own_proc()
    if seal_proc:
        for entry in os.scandir("/proc"):
            if not entry.name.isdigit() and not entry.is_symlink():
                _mount(entry.path, entry.path, None, _BIND)
                _mount("none", entry.path, None, _BIND | _REMOUNT | _READ_ONLY | _NOSUID_NODEV_NOEXEC)
    if os.path.isdir("/run"):
        _mount("tmpfs", "/run", "tmpfs", _NOSUID_NODEV_NOEXEC | _READ_ONLY)
    if os.path.isdir(SHARED_MEMORY):
        _mount("tmpfs", SHARED_MEMORY, "tmpfs", _NOSUID_NODEV_NOEXEC, "size=256m,mode=1777")


def _own_proc() -> None:
    _mount("none", "/", None, _RECURSIVE_PRIVATE)
    _mount("proc", "/proc", "proc", _NOSUID_NODEV_NOEXEC)


def _works(space: Space) -> bool:
    """Go all the way in a child, and see."""
    pid = os.fork()
    if pid == 0:
        try:
            enclose(space)
            if space.processes:
                cell = Cell()
                if cell.child == 0:
                    settle()
                    os._exit(0)
                status = os.waitstatus_to_exitcode(os.waitpid(cell.child, 0)[1])
                os.kill(cell.guard, signal.SIGKILL)
                os.waitpid(cell.guard, 0)
                os._exit(status)
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def _raise_loopback() -> None:
    """Profilers talk to themselves over 127.0.0.1."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):
        request = struct.pack("16sh14x", b"lo", 1)  # IFF_UP
        fcntl.ioctl(probe, 0x8914, request)  # SIOCSIFFLAGS


def _mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    name = kind.encode() if kind else None
    _call("mount", source.encode(), target.encode(), name, ctypes.c_ulong(flags), options.encode() or None)


def _call(name: str, *arguments: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        raise OSError(ctypes.get_errno(), name)


if __name__ == "__main__":
    print(json.dumps(asdict(find_space(processes="processes" in sys.argv, network="network" in sys.argv))))
