"""The fork server's own process: it imports torch and triton once, then forks a confined child per request.

`python -P -m egg_graph.evaluator.host.fork_server_process FD SETTINGS`. Requests come as JSON lines on the socket FD,
each with three file descriptors: the exit socket, on which this process reports how the child ended, the descriptor
that becomes the child's channel, and a file in memory that holds the child's job. The process is single threaded, runs
no candidate code and never touches CUDA: threads and CUDA would spoil its forks.
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
from math import inf
from pathlib import Path
from typing import Any

from egg_graph.evaluator.garbage_collection import garbage_collection_off
from egg_graph.evaluator.host.fork_server import GO_ON, PAUSE
from egg_graph.evaluator.sandbox import confine, namespaces, procfs
from egg_graph.evaluator.sandbox.policy import SandboxPolicy, find_policy

POLL = 0.05
"""Seconds between two checks of the children's processes and memory."""
DISK_POLL = 0.25
"""Seconds between two checks of the children's disk space."""
REAP_SECONDS = 5.0
"""Seconds to wait for a dead child's descendants to vanish before its exit is reported anyway."""


@dataclass
class Child:
    """One job's process."""

    pid: int
    init_pid: int
    """Process 1 of its pid namespace; 0 if it has no namespace, or that process has been reaped."""
    exit_socket: int
    """File descriptor on which to report how it ended."""
    request: dict[str, Any]
    """The job's folder, and its `Limits` by name."""
    deadline: float
    """Monotonic time at which it is killed; infinite while it is stopped."""
    disk_limit: float
    """Bytes that its folder may hold."""
    oom_kills: int
    """The kernel's count of out-of-memory kills when it started."""
    kill_reason: str = ""
    """Why this process killed it: `timeout`, `processes`, `memory` or `disk`; empty if it did not."""
    status: dict[str, Any] | None = None
    """How it ended (`cause`, `code`); None while it runs."""
    reap_deadline: float = 0.0
    """Monotonic time at which its exit is reported although descendants are left."""
    seconds_left: float = 0.0
    """Seconds that were left until the deadline when it was stopped last."""

    def obey(self) -> None:
        """Do what the judge sends on the exit socket: pause, go on, or end; it has gone where nothing can be read."""
        word = os.read(self.exit_socket, 1)
        if word == PAUSE:
            self.seconds_left, self.deadline = self.deadline - time.monotonic(), inf
            self.signal(signal.SIGSTOP)
        elif word == GO_ON:
            self.deadline = time.monotonic() + self.seconds_left
            self.signal(signal.SIGCONT)
        else:
            self.kill("timeout")

    def signal(self, number: int) -> None:
        """Send a signal to the job and all its descendants."""
        for pid in procfs.process_tree((self.pid, self.init_pid), self.request["processes"] + 2):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self, reason: str = "") -> None:
        """Kill the job and all its descendants. The first reason given stays."""
        self.kill_reason = self.kill_reason or reason
        for pid in filter(None, (self.init_pid, self.pid if self.status is None else 0)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not self.init_pid:
            confine.kill_group(self.pid)


def main(control_fd: int, settings: dict[str, Any]) -> None:
    """Confine this process, import, and serve until the judge closes its socket."""
    confine.die_with_parent()
    policy = find_policy(settings["without"])
    namespaces.enter_namespaces(policy.namespaces, before_wait=lambda: os.close(control_fd))
    confine.become_subreaper()
    with garbage_collection_off():
        for name in settings["modules"]:
            module = importlib.import_module(name)
            if hasattr(module, "warm_up"):
                module.warm_up()
    _ = policy.allowed_paths
    gc.collect()
    gc.freeze()  # a collection would write to pages that the forks share
    _Server(socket.socket(fileno=control_fd), policy).serve()


class _Server:
    """Forks a child per request and reports how each ended."""

    def __init__(self, control: socket.socket, policy: SandboxPolicy) -> None:
        self.control = control
        self.policy = policy
        self.children: list[Child] = []
        self.wakeup_fd, write_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(write_fd, warn_on_full_buffer=False)  # a child's exit ends the select below

    def serve(self) -> None:
        """Serve until the judge closes the control socket, then kill all children."""
        pending = b""
        checked = disk_checked = 0.0
        while True:
            now = time.monotonic()
            self._reap(now)
            if now - checked > POLL:
                disk = now - disk_checked > DISK_POLL
                checked, disk_checked = now, now if disk else disk_checked
                self._enforce_limits(now, disk=disk)
            running = {c.exit_socket: c for c in self.children if c.status is None and not c.kill_reason}
            watched = [self.control.fileno(), self.wakeup_fd, *running]
            ready, _, _ = select.select(watched, [], [], POLL if self.children else 0.5)
            if self.wakeup_fd in ready:
                os.read(self.wakeup_fd, 4096)
            for exit_socket in running.keys() & set(ready):
                running[exit_socket].obey()
            if self.control.fileno() not in ready:
                continue
            data, fds, _, _ = socket.recv_fds(self.control, 1 << 16, 3, socket.MSG_CMSG_CLOEXEC)
            if not data:
                break
            pending += data
            if not pending.endswith(b"\n"):
                continue  # the rest of the request is on its way; its descriptors came with the first byte
            request, pending = json.loads(pending), b""
            self.children.append(self._fork(request, *fds))
        for child in self.children:
            child.kill()

    def _fork(self, request: dict[str, Any], exit_socket: int, channel: int, task: int) -> Child:
        folder = Path(request["folder"])
        disk = os.statvfs(folder)
        room = min(request["disk_bytes"], disk.f_bavail * disk.f_frsize / 2)
        disk_limit = procfs.stored_bytes(folder) + room
        oom_kills = procfs.out_of_memory_kills()
        namespace = namespaces.PidNamespace() if self.policy.namespaces.processes else None
        pid = namespace.child_pid if namespace else os.fork()
        if pid == 0:
            try:
                self._close_inherited(exit_socket)
                from egg_graph.evaluator.host import child

                child.main(request, channel, task, self.policy)
            finally:
                os._exit(70)  # `child.main` exits by itself; this line is for a fault in it
        os.close(channel)
        os.close(task)
        deadline = time.monotonic() + request["wall_seconds"]
        init_pid = namespace.init_pid if namespace else 0
        return Child(pid, init_pid, exit_socket, request, deadline, disk_limit, oom_kills)

    def _close_inherited(self, exit_socket: int) -> None:
        """In a child: give up the fork server's sockets and signal handling."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.close(exit_socket)
        self.control.close()

    def _enforce_limits(self, now: float, *, disk: bool) -> None:
        """Kill children that are late or use too much.

        Args:
            now: monotonic time.
            disk: whether to check disk space too.
        """
        for child in self.children:
            if child.status is not None or child.kill_reason:
                continue
            request, most = child.request, child.request["processes"]
            pids = procfs.process_tree((child.pid, child.init_pid), most + 2)
            if now >= child.deadline:
                child.kill("timeout")
            elif len(pids) > most + bool(child.init_pid) or procfs.thread_count(pids) > request["threads"]:
                child.kill("processes")
            elif procfs.private_bytes(pids) > request["resident_bytes"]:
                child.kill("memory")
            elif disk and procfs.stored_bytes(Path(request["folder"]), pids) > child.disk_limit:
                child.kill("disk")
        if not self.policy.namespaces.processes:
            confine.kill_strays(keep=[child.pid for child in self.children])

    def _reap(self, now: float) -> None:
        """Reap dead processes, kill what a dead child left behind, and report its exit once that is gone too."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            for child in self.children:
                if pid == child.pid and child.status is None:
                    child.status = self._exit_cause(child, status, usage.ru_utime + usage.ru_stime)
                    child.reap_deadline = now + REAP_SECONDS
                    child.kill()
                elif pid == child.init_pid:
                    child.init_pid = 0
        for child in [c for c in self.children if c.status is not None and (not c.init_pid or now > c.reap_deadline)]:
            self.children.remove(child)
            _report_exit(child)

    def _exit_cause(self, child: Child, status: int, cpu_seconds: float) -> dict[str, Any]:
        """Return `cause` and `code` of `ChildExit`, as far as they can be known."""
        if child.kill_reason:
            return {"cause": child.kill_reason, "code": 0}
        if os.WIFEXITED(status):
            return {"cause": "exit", "code": os.WEXITSTATUS(status)}
        code = os.WTERMSIG(status)
        if code == signal.SIGKILL:
            if cpu_seconds >= confine.cpu_limit(child.request["wall_seconds"]):
                return {"cause": "timeout", "code": 0}
            if procfs.out_of_memory_kills() > child.oom_kills:
                return {"cause": "memory", "code": code}
            if self.policy.seccomp:  # the filter refuses SIGKILL, so the child cannot have sent it itself
                return {"cause": "killed", "code": code}
        return {"cause": "signal", "code": code}


def _report_exit(child: Child) -> None:
    with socket.socket(fileno=child.exit_socket) as judge, suppress(BrokenPipeError):  # the judge may have gone
        judge.sendall(json.dumps(child.status).encode() + b"\n")


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    main(int(sys.argv[1]), json.loads(sys.argv[2]))
