"""The folder of a run.

<runs_dir>/<id>/run.json            the request: the reference and the knobs
<runs_dir>/<id>/checkpoints.sqlite  every step of the graph, so that a killed run goes on where it stopped
<runs_dir>/<id>/lock                locked while a process works on the run; names that process
<runs_dir>/<id>/requests/           every request to a model: prompt, raw answer, cost
<runs_dir>/<id>/evaluations/        every answer of the evaluator
<runs_dir>/<id>/kernel.py           the kernel, if the run ended with one
<runs_dir>/<id>/evidence.json       verdict, evaluation, baseline, summaries, sweeps, cost
<runs_dir>/<id>/history.jsonl       one attempt a line, then one call a line; calls alone while the run works
<runs_dir>/<id>/report.html         the same for a person
"""

import datetime
import json
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from egg_graph.process_lock import AlreadyLocked, free_lock, take_lock, this_process
from egg_graph.runs.checkpoints import make_checkpoints
from egg_graph.runs.files import ANEW, FULL, RESUME, cannot_write, write_whole
from egg_graph.schema import BadInput, InfrastructureError
from egg_graph.schema.errors import RunHeld


def make_folder(runs_dir: Path, name: str) -> Path:
    """Make a new folder, named by the time (UTC) and the task.

    Raises:
        BadInput: if the folder cannot be made.
        InfrastructureError: if the disk is full.
    """
    now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%d-%H%M%S")
    task = re.sub(r"[^A-Za-z0-9_]+", "-", name).strip("-")[:40] or "run"
    folder = runs_dir / f"{now}-{task}-{secrets.token_hex(2)}"
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        if error.errno in FULL:
            raise cannot_write(folder, error, ANEW) from error
        raise BadInput(f"cannot make the run's folder {folder}: {error.strerror}; pass another runs_dir") from error
    return folder


def write_request(folder: Path, request: dict[str, Any]) -> None:
    """Make the database for checkpoints, then write run.json: the input, `context` and `model`.

    Raises:
        InfrastructureError: if they cannot be written; the folder is then removed.
    """
    try:
        make_checkpoints(folder)
        write_whole(folder / "run.json", json.dumps(request, indent=2) + "\n")
    except (OSError, InfrastructureError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, InfrastructureError):
            raise
        raise cannot_write(folder, error, ANEW) from error


def change_request(folder: Path, request: dict[str, Any]) -> None:
    """Write run.json anew.

    Raises:
        InfrastructureError: if it cannot be written.
    """
    try:
        write_whole(folder / "run.json", json.dumps(request, indent=2) + "\n")
    except OSError as error:
        raise cannot_write(folder, error, RESUME) from error


def read_request(folder: Path) -> dict[str, Any]:
    """Read run.json.

    Raises:
        BadInput: if there is no such run; the message names up to five that there are.
        InfrastructureError: if the file is damaged.
    """
    path = folder / "run.json"
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        known = sorted(path.parent.name for path in folder.parent.glob("*/run.json"))
        of = f"there are {len(known)}, the latest" if len(known) > 5 else "there are"
        there = f"{of} {', '.join(known[-5:])}" if known else "there is none"
        raise BadInput(f"no run {folder.name!r} in {folder.parent}: {there}") from error
    except ValueError as error:
        raise InfrastructureError(
            f"{path} is damaged: {error}; put a copy of it in its place, or start anew"
        ) from error


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Keep every other process, and every other thread of this one, from working on the run.

    The kernel frees the lock when the process ends, however it ends.

    Raises:
        RunHeld: if another one works on the run.
        InfrastructureError: if the folder cannot be written or locked.
    """
    try:
        file = take_lock(folder / "lock")
    except AlreadyLocked as holder:
        raise RunHeld(
            f"{holder} is at work on the run {folder.name}; wait for its end, or stop it and resume again"
        ) from holder
    except OSError as error:
        raise cannot_write(folder, error, RESUME) from error
    try:
        yield
    finally:
        free_lock(file)


def is_anothers(folder: Path) -> bool:
    """Whether another process was the last to work on the run."""
    with suppress(OSError):
        return (folder / "lock").read_text(encoding="utf-8").strip() not in ("", this_process())
    return False
