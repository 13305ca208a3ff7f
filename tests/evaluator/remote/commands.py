"""Start the commands of a host that judges, and wait for what they do."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

from tests.paths import IMPORTABLE

TOKEN = "a token of thirty-two letters ..."


def start(log, *words, token=TOKEN):
    """The command as a process of its own."""
    environment = {**os.environ, "PYTHONPATH": IMPORTABLE, "COLUMNS": "200", "EGG_GRAPH_TOKEN": token}
    command = [sys.executable, "-m", "tests.evaluator.remote.host", *map(str, [log, *words])]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=environment, **pipes)


@contextmanager
def started(log, *words, end=signal.SIGINT):
    """The command as long as the block lasts, then ended by a signal; inside, its process."""
    process = start(log, *words)
    try:
        yield process
    finally:
        process.send_signal(end)
        process.said = process.communicate(timeout=60)


def until(happened, process=None, seconds=60):
    """Wait until it has happened."""
    end = time.monotonic() + seconds
    while not happened():
        assert process is None or process.poll() is None, process.communicate()
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def lines(log):
    return log.read_text().splitlines() if log.exists() else []
