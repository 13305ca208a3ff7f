"""Jobs that try what a hostile candidate would, in the place where a candidate runs; each says how far it came.

They run in the evaluator's child processes as jobs ("hostile_jobs:read"), past the gate and the tripwires, so that what
stops them is the operating system alone.
"""

import ctypes
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def _attempt(action: Callable[[], Any]) -> str:
    """`done`, or why not."""
    try:
        action()
    except OSError as error:
        return f"{type(error).__name__} {error.errno}"
    return "done"


def read(payload: dict[str, Any], folder: Path, channel: int) -> dict[str, Any]:
    return {path: _attempt(lambda path=path: os.listdir(path) if os.path.isdir(path) else open(path).read(1))
            for path in payload["paths"]}  # fmt: skip


def write(payload: dict[str, Any], folder: Path, channel: int) -> dict[str, Any]:
    return {path: _attempt(lambda path=path: open(path, "a").close()) for path in payload["paths"]}


def plant_links(payload: dict[str, Any], folder: Path, channel: int) -> dict[str, Any]:
    """Put links to a file of the user where the next job in this folder, or the judge, is going to write."""
    for name in payload["names"]:
        (folder / name).unlink(missing_ok=True)
        os.symlink(payload["target"], folder / name)
    return {}


def shout(payload: dict[str, Any], folder: Path, channel: int) -> dict[str, Any]:
    print("a line for the user's file", flush=True)
    return {}


def look_around(payload: dict[str, Any], folder: Path, channel: int) -> dict[str, Any]:
    (folder / "own.txt").write_text("mine")
    limits = {name: resource.getrlimit(getattr(resource, name)) for name in ("RLIMIT_CORE", "RLIMIT_NOFILE")}
    return {
        "environment": dict(os.environ),
        "descriptors": [fd for fd in range(256) if _attempt(lambda fd=fd: os.fstat(fd)) == "done"],
        "processes": sorted(int(name) for name in os.listdir("/proc") if name.isdigit()),
        "interfaces": [name for _, name in socket.if_nameindex()] if payload.get("tools") else None,
        "capabilities": [line.split()[1] for line in Path("/proc/self/status").read_text().splitlines()
                         if line.startswith(("CapEff", "CapPrm", "CapBnd"))],
        "limits": limits,
        "own": (folder / "own.txt").read_text(),
        "child": subprocess.run([sys.executable, "-c", "print(6 * 7)"], capture_output=True, text=True).stdout,
    }  # fmt: skip


def connect(payload: dict[str, Any], folder: Path, channel: int) -> dict[str, Any]:
    def local() -> None:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(payload["path"])

    def abstract() -> None:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect("\0" + payload["abstract"])

    def datagram() -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
            client.sendto(b"x", payload["path"])

    return {
        "server": _attempt(lambda: socket.create_connection(("127.0.0.1", payload["port"]), timeout=5).close()),
        "resolver": _attempt(lambda: socket.getaddrinfo("example.org", 80)),
        "outside": _attempt(lambda: socket.create_connection(("192.0.2.1", 80), timeout=5).close()),
        "local": _attempt(local),
        "abstract": _attempt(abstract),
        "datagram": _attempt(datagram),
        "vsock": _attempt(lambda: socket.socket(socket.AF_VSOCK).close()),
    }


def signals(payload: dict[str, Any], folder: Path, channel: int) -> dict[str, Any]:
    def told(pid: int) -> str:
        return _attempt(lambda: os.kill(pid, 0))

    return {
        "others": [told(pid) for pid in payload["pids"]],
        "guard": _attempt(lambda: os.kill(1, signal.SIGTERM)),
        "parent": os.getppid(),
        "itself": _attempt(lambda: os.kill(os.getpid(), signal.SIGKILL)),
    }


def system_calls(payload: dict[str, Any], folder: Path, channel: int) -> dict[str, Any]:
    libc = ctypes.CDLL(None, use_errno=True)
    null = ctypes.c_void_p()

    def told(name: str, *arguments: Any) -> int:
        ctypes.set_errno(0)
        getattr(libc, name)(*arguments)
        return ctypes.get_errno()

    return {
        "ptrace": told("ptrace", 16, payload["pid"], null, null),
        "process_vm_readv": told("process_vm_readv", payload["pid"], null, 0, null, 0, 0),
        "unshare": told("unshare", 0x10000000),
        "mount": told("mount", b"none", b"/tmp", b"tmpfs", 0, null),
        "setns": told("setns", 0, 0),
        "keyctl": told("syscall", 250, 0, 0),
        "io_uring": told("syscall", 425, 1, null),
        "dumpable": told("prctl", 4, 0, 0, 0, 0),
        "of_another_convention": told("syscall", 0x40000000 | 39),
    }


def leave_daemons(payload: dict[str, Any], folder: Path, channel: int) -> dict[str, Any]:
    """Sleepers that have left the family in three ways, in the job's own folder."""
    for hide in ((), (os.setsid,), (os.setsid, _fork_again)):
        if os.fork() == 0:
            os.close(channel)
            for step in hide:
                step()
            time.sleep(600)
            os._exit(0)
    time.sleep(0.1)
    return {"left": True}


def _fork_again() -> None:
    if os.fork():
        os._exit(0)


def bomb(payload: dict[str, Any], folder: Path, channel: int) -> dict[str, Any]:
    while True:
        if _attempt(os.fork) != "done":
            time.sleep(0.01)


def many_threads(payload: dict[str, Any], folder: Path, channel: int) -> dict[str, Any]:
    while True:
        try:
            threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
        except RuntimeError:  # no room for one more
            time.sleep(0.01)


def fill_disk(payload: dict[str, Any], folder: Path, channel: int) -> dict[str, Any]:
    """Where files have names, and where they have none."""
    block = b"x" * (1 << 20)
    held = []
    while True:
        if payload["how"] == "named":
            file = (folder / f"{len(held)}.bin").open("wb")
        elif payload["how"] == "deleted":
            file = (folder / "gone.bin").open("wb")
            (folder / "gone.bin").unlink()
        else:
            file = os.fdopen(os.memfd_create("gone"), "wb")
        held.append(file)
        for _ in range(8):
            file.write(block)
        file.flush()


def eat_memory(payload: dict[str, Any], folder: Path, channel: int) -> dict[str, Any]:
    held = []
    while True:
        held.append(bytearray(os.urandom(1 << 20)) * 16)


def die(payload: dict[str, Any], folder: Path, channel: int) -> dict[str, Any]:
    how = payload["how"]
    if how == "abort":
        os.abort()
    if how == "segfault":
        ctypes.string_at(0)
    if how == "exit":
        os._exit(3)
    if how == "processor time":
        resource.setrlimit(resource.RLIMIT_CPU, (1, resource.getrlimit(resource.RLIMIT_CPU)[1]))
        while True:
            pass
    time.sleep(600)
    return {}


def answer(payload: dict[str, Any], folder: Path, channel: int) -> dict[str, Any]:
    return json.loads(json.dumps(payload))
