"""A program that a job starts ahead: it imports what it needs, opens no GPU, and waits for the judge's go.

The judge sends what the program is to work on with the go, on the job's channel. The job passes it on in a file whose
name the program alone knows: the candidate's own process may still be at work in the folder, and nothing that it leaves
there counts as the go.
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

GO = "EGG_GRAPH_GO"
"""Environment variable of the program: name of the file in the job's folder that holds what came with the go."""
POLL = 0.01
"""Seconds between two looks for the go."""


def new_go(folder: Path) -> Path:
    """Return the file in the job's folder by which its programs will be told the go."""
    return folder / f"{secrets.token_hex(16)}.json"


def pass_on(channel: int, go: Path, waits: Callable[[], bool]) -> bool:
    """Wait for the judge's go and pass it on; False if the programs end before.

    Args:
        channel: socket on which the go comes, one line: the payload of `tools.job_files.write_case`.
        go: the programs' file.
        waits: whether a program still waits.
    """
    while waits():
        if select.select([channel], [], [], POLL)[0]:
            with os.fdopen(channel, "rb", closefd=False) as judge:
                single_forward.write_payload(go, json.loads(judge.readline()))
            return True
    return False


def wait_for_go(folder: Path, ready: Path) -> dict[str, Any]:
    """Make the file `ready`, wait for the go without the GPU, and return what came with it.

    The judge limits the time.
    """
    from egg_graph.evaluator.host import candidate  # noqa: F401 - what loads the candidate is imported by then

    go = folder / os.environ[GO]
    ready.touch()
    while not go.exists():
        time.sleep(POLL)
    return single_forward.read_payload(go)
