"""`langgraph dev` in a folder: start it, wait for it, kill it; and, from inside, write down all that it holds."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from egg_graph.schema import InfrastructureError
from tests.paths import IMPORTABLE

LOG = "server.log"
"""File with what the server prints, of every start."""
ENVIRONMENT = {
    "PYTHONPATH": IMPORTABLE,
    "LANGGRAPH_STRICT_MSGPACK": "true",
    "LANGGRAPH_CLI_NO_ANALYTICS": "1",
    "LANGSMITH_TRACING": "false",
}
QUIET = 0.3
"""Seconds between two looks at what the server holds."""


def free_port() -> int:
    """A port of this machine that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def serving(folder: Path, port: int, runs: int) -> Iterator["subprocess.Popen[bytes]"]:
    """A server of the langgraph.json in this folder; at the end it is killed.

    Args:
        folder: where the server works and keeps its files.
        port: where it listens.
        runs: number of runs that it works on at once.

    Raises:
        InfrastructureError: if it does not come up.
    """
    command = [sys.executable, "-m", "langgraph_cli", "dev", "--no-browser", "--no-reload", "--port", str(port)]
    with (folder / LOG).open("a") as output:
        server = subprocess.Popen(
            [*command, "--n-jobs-per-worker", str(runs)],
            cwd=folder,
            env=os.environ | ENVIRONMENT,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            wait_until(lambda: _is_up(port), server, folder)
            yield server
        finally:
            server.kill()
            server.wait(timeout=20)


def wait_until(
    there: Callable[[], bool], server: "subprocess.Popen[bytes]", folder: Path, seconds: float = 60.0
) -> None:
    """Wait until something is there.

    Raises:
        InfrastructureError: if the server ends before, or it is not there in time.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and server.poll() is None:
        if there():
            return
        time.sleep(0.1)
    ended = "" if server.poll() is None else " (the server has ended)"
    raise InfrastructureError(f"waited in vain{ended}; {folder / LOG} ends:\n{(folder / LOG).read_text()[-4000:]}")


def _is_up(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/ok", timeout=2):
            return True
    except OSError:
        return False


def save_stores() -> None:
    """Write down all that the server holds, as it does itself every ten seconds, once nothing in it changes any more.

    To be called inside the server. It then writes nothing more by itself.
    """
    from langgraph_runtime_inmem import _persistence  # type: ignore[import-untyped]

    _persistence.stop_flush_loop()
    before: tuple[int, ...] = ()
    while before != (sizes := _save(_persistence._stores)):
        before = sizes
        time.sleep(QUIET)


def _save(stores: dict[str, Any]) -> tuple[int, ...]:
    """Write every store to its file; the sizes of the files, or the time where a store changed meanwhile."""
    try:
        for name in list(stores):
            stores[name]().sync()
    except RuntimeError:
        return (time.monotonic_ns(),)
    return tuple(Path(name).stat().st_size for name in sorted(stores))
