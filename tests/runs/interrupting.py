"""Python as a process of its own, in which Ctrl-C is pressed while a candidate is at work."""

import os
import signal
import subprocess
import sys
import time

from tests.lab.processes import descendants
from tests.paths import IMPORTABLE


def run(temporary, *words):
    command = [sys.executable, *map(str, words)]
    environment = {**os.environ, "PYTHONPATH": IMPORTABLE, "COLUMNS": "300", "TMPDIR": str(temporary)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=environment, start_new_session=True, **pipes)


def interrupt(process):
    """Press Ctrl-C while a candidate is at work; what was said, the processes that there were, seconds, exit status."""
    until = time.monotonic() + 90
    while not any("/job-" in cwd(p.pid) and p.cpu_seconds >= 0.2 for p in descendants(process.pid)):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until, "no candidate was started"
        time.sleep(0.05)
    there = descendants(process.pid)
    pressed = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    return said, there, time.monotonic() - pressed, process.returncode


def cwd(pid):
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return ""
