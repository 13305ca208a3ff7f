"""The nursery process: imports torch and triton once, then forks a confined child for every order.

`python -m egg_graph.evaluator.zygote FD MODULE...`. Orders come as JSON lines on the socket FD, each with two file
descriptors: one on which this process tells how the child ended, one that becomes the child's channel. It is single
threaded, runs no candidate code, and never touches CUDA: both would spoil its forks.
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
from typing import Any

from egg_graph.evaluator import confine


@dataclass
class Child:
    """One forked child and where to tell its end."""

    pid: int
    fate: int
    deadline: float
    overran: bool = False


def main(control_fd: int, modules: list[str]) -> None:
    confine.die_with_parent()
    confine.adopt_orphans()
    for name in modules:
        module = importlib.import_module(name)
        if hasattr(module, "warm_up"):
            module.warm_up()
    gc.collect()
    gc.freeze()  # what is warm stays shared between the forks
    control = socket.socket(fileno=control_fd)
    children: dict[int, Child] = {}
    pending = b""
    while True:
        _end_finished(children)
        fates = {child.fate: child for child in children.values() if not child.overran}
        wait = 0.01 if children else 0.5
        ready, _, _ = select.select([control.fileno(), *fates], [], [], wait)
        for fate in (fd for fd in ready if fd in fates):  # the judge wants this child ended, or no longer cares
            fates[fate].overran = True
            confine.kill_tree(fates[fate].pid)
        if control.fileno() not in ready:
            continue
        data, fds, _, _ = socket.recv_fds(control, 1 << 16, 2)
        if not data:
            break
        pending += data
        if not pending.endswith(b"\n"):
            continue  # the rest of an order is on its way; its descriptors came with the first byte
        order, pending = json.loads(pending), b""
        child = _fork(order, fds[0], fds[1], control)
        children[child.pid] = child
    for child in children.values():
        confine.kill_tree(child.pid)


def _fork(order: dict[str, Any], fate: int, channel: int, control: socket.socket) -> Child:
    pid = os.fork()
    if pid == 0:
        try:
            os.close(fate)
            control.close()
            from egg_graph.evaluator import child

            child.main(order, channel)
        finally:
            os._exit(70)  # `child.main` ends the process itself; this line is for a fault in it
    os.close(channel)
    return Child(pid, fate, time.monotonic() + order["wall_seconds"])


def _end_finished(children: dict[int, Child]) -> None:
    """Reap who is done, kill who is late, and end whatever a dead child left behind."""
    now = time.monotonic()
    for child in children.values():
        if now >= child.deadline and not child.overran:
            child.overran = True
            confine.kill_tree(child.pid)
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if pid == 0:
            break
        if pid in children:
            _tell(children.pop(pid), status)
    confine.kill_strays(keep=children.keys())


def _tell(child: Child, status: int) -> None:
    confine.kill_group(child.pid)
    if child.overran:
        end = {"cause": "timeout", "code": 0}
    elif os.WIFSIGNALED(status):
        end = {"cause": "signal", "code": os.WTERMSIG(status)}
    else:
        end = {"cause": "exit", "code": os.WEXITSTATUS(status)}
    with socket.socket(fileno=child.fate) as fate, suppress(BrokenPipeError):  # the judge no longer wants to know
        fate.sendall(json.dumps(end).encode() + b"\n")


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    main(int(sys.argv[1]), sys.argv[2:])
