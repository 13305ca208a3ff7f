"""The fork server process: imports torch and triton once, then forks a confined child for every order.

`python -P -m egg_graph.evaluator.host.fork_server_process FD SETTINGS`. Orders come as JSON lines on the socket FD,
each with two file descriptors: one on which this process tells how the child ended, one that becomes the child's
channel. It is single threaded, runs no candidate code, and never touches CUDA: both would spoil its forks.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from egg_graph.evaluator.sandbox import confine, monitor, namespaces
from egg_graph.evaluator.sandbox.policy import SandboxPolicy, find_policy

LOOK = 0.05
"""Seconds between two looks at what the children hold."""
LOOK_AT_DISK = 0.25
FAREWELL = 5.0
"""Seconds that the descendants of a dead child get to vanish before its end is told; the kernel may hold them."""


@dataclass
class Child:
    """One job: its process, the process 1 of its namespace (0 where it has none), and where to tell its end."""

    pid: int
    guard: int
    fate: int
    order: dict[str, Any]
    deadline: float
    most_stored: float
    memory_kills: int
    ended_for: str = ""
    """Why this process ended it: `timeout`, `processes`, `memory`, `disk`."""
    end: dict[str, Any] | None = None
    """How it ended, once it has."""
    farewell: float = 0.0

    def kill(self, reason: str = "") -> None:
        """End the job and all its descendants. The first reason stays."""
        self.ended_for = self.ended_for or reason
        for pid in filter(None, (self.guard, self.pid if self.end is None else 0)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not self.guard:
            confine.kill_group(self.pid)


def main(control_fd: int, settings: dict[str, Any]) -> None:
    confine.die_with_parent()
    policy = find_policy(settings["without"])
    namespaces.enclose(policy.space, forget=lambda: os.close(control_fd))
    confine.adopt_orphans()
    for name in settings["modules"]:
        module = importlib.import_module(name)
        if hasattr(module, "warm_up"):
            module.warm_up()
    _ = policy.needed
    gc.collect()
    gc.freeze()  # what is warm stays shared between the forks
    _Server(socket.socket(fileno=control_fd), policy).serve()


class _Server:
    """Orders in, ends out."""

    def __init__(self, control: socket.socket, policy: SandboxPolicy) -> None:
        self.control = control
        self.policy = policy
        self.children: list[Child] = []
        self.woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)  # the end of a child ends the wait below

    def serve(self) -> None:
        """Until the judge goes away."""
        pending = b""
        looked = looked_at_disk = 0.0
        while True:
            now = time.monotonic()
            self._reap(now)
            if now - looked > LOOK:
                disk = now - looked_at_disk > LOOK_AT_DISK
                looked, looked_at_disk = now, now if disk else looked_at_disk
                self._look(now, disk=disk)
            fates = {child.fate: child for child in self.children if child.end is None and not child.ended_for}
            waited = [self.control.fileno(), self.woken, *fates]
            ready, _, _ = select.select(waited, [], [], LOOK if self.children else 0.5)
            if self.woken in ready:
                os.read(self.woken, 4096)
            for fate in (fd for fd in ready if fd in fates):  # the judge wants this child ended, or no longer cares
                fates[fate].kill("timeout")
            if self.control.fileno() not in ready:
                continue
            data, fds, _, _ = socket.recv_fds(self.control, 1 << 16, 2, socket.MSG_CMSG_CLOEXEC)
            if not data:
                break
            pending += data
            if not pending.endswith(b"\n"):
                continue  # the rest of an order is on its way; its descriptors came with the first byte
            order, pending = json.loads(pending), b""
            self.children.append(self._fork(order, fds[0], fds[1]))
        for child in self.children:
            child.kill()

    def _fork(self, order: dict[str, Any], fate: int, channel: int) -> Child:
        folder = Path(order["folder"])
        free = os.statvfs(folder)
        room = min(order["disk_bytes"], free.f_bavail * free.f_frsize / 2)
        most_stored = monitor.stored_bytes(folder) + room
        kills = monitor.out_of_memory_kills()
        cell = namespaces.Cell() if self.policy.space.processes else None
        pid = cell.child if cell else os.fork()
        if pid == 0:
            try:
                self._forget(fate)
                from egg_graph.evaluator.host import child

                child.main(order, channel, self.policy)
            finally:
                os._exit(70)  # `child.main` ends the process itself; this line is for a fault in it
        os.close(channel)
        deadline = time.monotonic() + order["wall_seconds"]
        return Child(pid, cell.guard if cell else 0, fate, order, deadline, most_stored, kills)

    def _forget(self, fate: int) -> None:
        """In a child: nothing of the fork server's own business."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.close(fate)
        self.control.close()

    def _look(self, now: float, *, disk: bool) -> None:
        """End who is late or holds too much."""
        for child in self.children:
            if child.end is not None or child.ended_for:
                continue
            order, most = child.order, child.order["processes"]
            pids = monitor.family((child.pid, child.guard), most + 2)
            if now >= child.deadline:
                child.kill("timeout")
            elif len(pids) > most + bool(child.guard) or monitor.threads(pids) > 8 * most:
                child.kill("processes")
            elif monitor.private_bytes(pids) > order["resident_bytes"]:
                child.kill("memory")
            elif disk and monitor.stored_bytes(Path(order["folder"]), pids) > child.most_stored:
                child.kill("disk")
        if not self.policy.space.processes:
            confine.kill_strays(keep=[child.pid for child in self.children])

    def _reap(self, now: float) -> None:
        """Learn who is done; end what a dead child left behind, and tell its end when that is gone, too."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            for child in self.children:
                if pid == child.pid and child.end is None:
                    child.end = self._end(child, status, usage.ru_utime + usage.ru_stime)
                    child.farewell = now + FAREWELL
                    child.kill()
                elif pid == child.guard:
                    child.guard = 0
        for child in [c for c in self.children if c.end is not None and (not c.guard or now > c.farewell)]:
            self.children.remove(child)
            _tell(child)

    def _end(self, child: Child, status: int, processor_seconds: float) -> dict[str, Any]:
        """The cause in a word, as far as it can be told."""
        if child.ended_for:
            return {"cause": child.ended_for, "code": 0}
        if os.WIFEXITED(status):
            return {"cause": "exit", "code": os.WEXITSTATUS(status)}
        code = os.WTERMSIG(status)
        if code == signal.SIGKILL:
            if processor_seconds >= confine.most_processor_seconds(child.order["wall_seconds"]):
                return {"cause": "timeout", "code": 0}
            if monitor.out_of_memory_kills() > child.memory_kills:
                return {"cause": "memory", "code": code}
            if self.policy.seccomp:  # it cannot have done that itself
                return {"cause": "killed", "code": code}
        return {"cause": "signal", "code": code}


def _tell(child: Child) -> None:
    with socket.socket(fileno=child.fate) as fate, suppress(BrokenPipeError):  # the judge no longer wants to know
        fate.sendall(json.dumps(child.end).encode() + b"\n")


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    main(int(sys.argv[1]), json.loads(sys.argv[2]))
