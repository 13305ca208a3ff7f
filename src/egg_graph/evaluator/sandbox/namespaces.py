"""Linux namespaces: a candidate sees no processes, no /proc entries and no network interfaces but its own.

The fork server calls `enter_namespaces` once. For each job it makes a `PidNamespace`, and the job's process calls
`enter_mount_namespace`.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import signal
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
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
class Namespaces:
    """Which namespaces a fork server and its children live in."""

    user: bool = False
    """Whether to make a user namespace first, which lets an ordinary user make the others."""
    processes: bool = False
    """Whether every job gets process ids, /proc, mounts and System V IPC of its own."""
    network: bool = False
    """Whether the jobs of one fork server share a network that has only a loopback interface."""


def find_namespaces(*, processes: bool = True, network: bool = True) -> Namespaces:
    """Return the most that this kernel grants of what is wanted. Tries them in throw-away children.

    Args:
        processes: whether namespaces of processes are wanted.
        network: whether a namespace of the network is wanted.
    """
    users = (False, True) if _privileged() else (True,)
    wanted = [(processes, network), (processes, False), (False, network)]
    for with_processes, with_network in dict.fromkeys(wanted):
        for user in users:
            candidate = Namespaces(user, with_processes, with_network)
            if (with_processes or with_network) and _granted(candidate):
                return candidate
    return Namespaces()


def _privileged() -> bool:
    """Whether this process may make namespaces without a user namespace (CAP_SYS_ADMIN)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> _CAP_SYS_ADMIN & 1)
    return False


def enter_namespaces(wanted: Namespaces, before_wait: Callable[[], None] = lambda: None) -> None:
    """Move this process into namespaces.

    With `processes`, the call returns in a forked child, which is process 1 of the new pid namespace: the kernel kills
    everything inside when that process ends. The caller waits for it and exits with its status.

    Args:
        wanted: what `find_namespaces` found.
        before_wait: called in the process that only waits, to close what it must not hold.

    Raises:
        OSError: if the kernel refuses after all.
    """
    flags = wanted.user * _NEW_USER | wanted.network * _NEW_NETWORK
    flags |= wanted.processes * (_NEW_PIDS | _NEW_MOUNTS | _NEW_IPC)
    if flags:
        uid, gid = os.getuid(), os.getgid()
        _call("unshare", flags)
        if wanted.user:
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
            Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    if wanted.network:
        _raise_loopback()
    if not wanted.processes:
        return
    pid = os.fork()
    if pid:
        before_wait()
        _, status = os.waitpid(pid, 0)
        os._exit(os.waitstatus_to_exitcode(status) & 0x7F)
    _call("prctl", _PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    _mount_proc()


class PidNamespace:
    """A pid namespace for one job, made by forking: the constructor returns in the parent and in the job's process."""

    init_pid: int
    """Process 1 of the namespace. Killing it kills every process inside, however it hid."""
    child_pid: int = -1
    """The job's process, as `os.fork` returns it: 0 in that process itself."""

    def __init__(self) -> None:
        sleep = shutil.which("sleep") or "/bin/sleep"
        own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        try:
            _call("unshare", _NEW_PIDS)
            self.init_pid = os.posix_spawn(sleep, ["sleep", "infinity"], {}, setsid=True)
            self.child_pid = os.fork()
        finally:
            if self.child_pid != 0:
                _call("setns", own, _NEW_PIDS)
            os.close(own)


def enter_mount_namespace(*, read_only_proc: bool = False) -> None:
    """Give a job's process mounts and IPC of its own: its own /proc and shared memory, and an empty /run.

    Args:
        read_only_proc: whether to make the entries of /proc that belong to no process read-only. They are the kernel's
            settings, which root could otherwise change.
    """
    _call("unshare", _NEW_MOUNTS | _NEW_IPC)
    _mount_proc()
    if read_only_proc:
        for entry in os.scandir("/proc"):
            if not entry.name.isdigit() and not entry.is_symlink():
                _mount(entry.path, entry.path, None, _BIND)
                _mount("none", entry.path, None, _BIND | _REMOUNT | _READ_ONLY | _NOSUID_NODEV_NOEXEC)
    if os.path.isdir("/run"):
        _mount("tmpfs", "/run", "tmpfs", _NOSUID_NODEV_NOEXEC | _READ_ONLY)
    if os.path.isdir(SHARED_MEMORY):
        _mount("tmpfs", SHARED_MEMORY, "tmpfs", _NOSUID_NODEV_NOEXEC, "size=256m,mode=1777")


def _mount_proc() -> None:
    """Mount a /proc that shows the processes of this pid namespace, visible to this mount namespace alone."""
    _mount("none", "/", None, _RECURSIVE_PRIVATE)
    _mount("proc", "/proc", "proc", _NOSUID_NODEV_NOEXEC)


def _granted(wanted: Namespaces) -> bool:
    """Whether the kernel grants these namespaces: make them all in a forked child."""
    pid = os.fork()
    if pid == 0:
        try:
            enter_namespaces(wanted)
            if wanted.processes:
                namespace = PidNamespace()
                if namespace.child_pid == 0:
                    enter_mount_namespace()
                    os._exit(0)
                status = os.waitstatus_to_exitcode(os.waitpid(namespace.child_pid, 0)[1])
                os.kill(namespace.init_pid, signal.SIGKILL)
                os.waitpid(namespace.init_pid, 0)
                os._exit(status)
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def _raise_loopback() -> None:
    """Bring up the loopback interface: profilers talk to themselves over 127.0.0.1."""
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
