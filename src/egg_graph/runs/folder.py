"""The folder of a run.

<runs_dir>/<id>/run.json            the request: the reference and the knobs
<runs_dir>/<id>/checkpoints.sqlite  every step of the graph, so that a killed run goes on where it stopped
<runs_dir>/<id>/kernel.py           the kernel, if the run ended with one
<runs_dir>/<id>/evidence.json       verdict, evaluation, baseline, summaries, cost
<runs_dir>/<id>/history.jsonl       one attempt a line
<runs_dir>/<id>/report.html         the same for a person
"""

import datetime
import json
import re
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver

from egg_graph.runs.files import write_whole
from egg_graph.schema import BadInput, Value


def make_folder(runs_dir: Path, name: str) -> Path:
    """Make a new folder, named by the time (UTC) and the task.

    Raises:
        BadInput: if the folder cannot be made.
    """
    now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%d-%H%M%S")
    task = re.sub(r"[^A-Za-z0-9_]+", "-", name).strip("-")[:40] or "run"
    folder = runs_dir / f"{now}-{task}-{secrets.token_hex(2)}"
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise BadInput(f"cannot make the run's folder {folder}: {error.strerror}; pass another runs_dir") from error
    return folder


def write_request(folder: Path, request: dict[str, Any]) -> None:
    """Write run.json: keys `reference`, `name`, `context` and `model`."""
    write_whole(folder / "run.json", json.dumps(request, indent=2) + "\n")


def read_request(folder: Path) -> dict[str, Any]:
    """Read run.json.

    Raises:
        BadInput: if there is no such run; the message names up to five that there are.
    """
    try:
        return json.loads((folder / "run.json").read_text(encoding="utf-8"))
    except OSError as error:
        known = sorted(path.parent.name for path in folder.parent.glob("*/run.json"))
        there = f"there are {', '.join(known[-5:])}" if known else "there is none"
        raise BadInput(f"no run {folder.name!r} in {folder.parent}: {there}") from error


@contextmanager
def open_checkpoints(folder: Path) -> Iterator[SqliteSaver]:
    """Open the run's checkpointer. It loads only values of `egg_graph.schema`, whatever the environment says."""
    from egg_graph import schema

    ours = [(v.__module__, v.__name__) for v in vars(schema).values() if isinstance(v, type) and issubclass(v, Value)]
    serde = JsonPlusSerializer(allowed_msgpack_modules=[*ours, ("langgraph.types", "Overwrite")])
    with closing(sqlite3.connect(folder / "checkpoints.sqlite", check_same_thread=False)) as connection:
        yield SqliteSaver(connection, serde=serde)
