"""Start the commands of a host that judges, and wait for what they do."""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager

from tests.paths import IMPORTABLE

TOKEN = "a token of thirty-two letters ..."


def start(*words, stdout=subprocess.PIPE, **variables):
    """A module with its words as a process of its own."""
    given = {"PYTHONPATH": IMPORTABLE, "COLUMNS": "200", "EGG_GRAPH_TOKEN": TOKEN, **variables}
    pipes = {"stdout": stdout, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-m", *map(str, words)], env={**os.environ, **given}, **pipes)


@contextmanager
def ended(process, end=signal.SIGTERM):
    """A process as long as the block lasts, then ended by a signal; what it printed is then its `said`."""
    try:
        yield process
    finally:
        process.send_signal(end)
        process.said = process.communicate(timeout=60)


def started(log, *words, end=signal.SIGINT):
    """The command, with a scripted judge, as long as the block lasts, then ended by a signal; inside, its process."""
    return ended(start("tests.evaluator.remote.host", log, *words), end)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def until(happened, process=None, seconds=60):
    """Wait until it has happened."""
    end = time.monotonic() + seconds
    while not happened():
        assert process is None or process.poll() is None, process.communicate()
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def lines(log):
    return log.read_text().splitlines() if log.exists() else []
