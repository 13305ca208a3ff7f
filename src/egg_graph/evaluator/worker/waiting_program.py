"""A program that a job starts ahead: it imports what it needs, opens no GPU, and waits for the judge's case.

It loads the case, which opens the GPU, and waits for the judge's go. The judge sends both on the job's channel. The job
passes them on in files whose names the program alone knows: the candidate's own process may still be at work in the
folder, and nothing that it leaves there counts as the go.
"""

from __future__ import annotations

import json
import os
import secrets
import select
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from egg_graph.evaluator.worker import single_forward

CASE = "EGG_GRAPH_CASE"
"""Environment variable of the program: name of the file in the job's folder that will hold the case."""
POLL = 0.01
"""Seconds between two looks for the case, or for the go."""


def new_case(folder: Path) -> Path:
    """Return the file in the job's folder by which its programs will be told the case."""
    return folder / f"{secrets.token_hex(16)}.json"


def go_of(case: Path) -> Path:
    """Return the file that is there once the judge has said go."""
    return case.with_suffix(".go")


def pass_on(channel: int, case: Path, waits: Callable[[], bool]) -> bool:
    """Wait for the judge's case and go, and pass them on; False if the programs end before. What was passed on to
    programs that ended is there for those that are started in their place, and only the rest is waited for.

    Args:
        channel: socket on which both come, a line each; the first is the payload of `tools.job_files.write_case`.
        case: the programs' file.
        waits: whether a program still waits.
    """
    with os.fdopen(channel, "rb", buffering=0, closefd=False) as judge:
        if not case.exists():
            if not _is_told(channel, waits):
                return False
            single_forward.write_payload(case, json.loads(judge.readline()))
        if not _is_told(channel, waits):
            return False
        go_of(case).touch()
        return True


def _is_told(channel: int, waits: Callable[[], bool]) -> bool:
    """Wait for a line of the judge's; False if the programs end before."""
    while waits():
        if select.select([channel], [], [], POLL)[0]:
            return True
    return False


def wait_for_case(folder: Path, ready: Path) -> dict[str, Any]:
    """Make the file `ready`, wait for the case without the GPU, and return it.

    The judge limits the time.
    """
    from egg_graph.evaluator.host import candidate  # noqa: F401 - what loads the candidate is imported by then

    case = folder / os.environ[CASE]
    ready.touch()
    while not case.exists():
        time.sleep(POLL)
    return single_forward.read_payload(case)


def wait_for_go(folder: Path, loaded: Path) -> dict[str, Any]:
    """Make the file `loaded` and wait for the go; returns the begin of what follows, for `single_forward.tell_step`."""
    go = go_of(folder / os.environ[CASE])
    loaded.touch()
    while not go.exists():
        time.sleep(POLL)
    return {"begin": time.time()}
