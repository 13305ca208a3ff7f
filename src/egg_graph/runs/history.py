"""history.jsonl: every call while the run is at work, and every attempt beside them when it has ended.

| line | has |
| --- | --- |
| an attempt | the fields of `Attempt`, and no key `line` |
| `"line": "call"` | the fields of `CallEntry`: one call of the evaluator or of a role, with its begin and its seconds |
| `"line": "sitting"` | the fields of `Sitting`: a process began to work at the run; a second line says how long |

A line is appended as soon as its call is over, so that a run that is killed has them, too; a line that was cut short is
left out. When the run has ended, the file is written anew, with the attempts first.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic

from pydantic import ValidationError

from egg_graph.runs.files import RESUME, cannot_write, write_whole
from egg_graph.schema import Attempt, CallEntry, InfrastructureError, Ledger, Sitting
from egg_graph.schema.ledger import is_ledger_line, read_line

FILE = "history.jsonl"


@contextmanager
def sitting(folder: Path, started: float) -> Iterator[None]:
    """Note when this process works at the run: to the end of the block, however that ends.

    Args:
        folder: the run's folder.
        started: when it began, by the monotonic clock.

    Raises:
        InfrastructureError: if the file cannot be written.
    """
    begin = datetime.now(UTC) - timedelta(seconds=monotonic() - started)
    append(folder, Sitting(begin=begin))
    try:
        yield
    except BaseException:
        with suppress(InfrastructureError):  # what ended the sitting is what is told
            append(folder, Sitting(begin=begin, seconds=monotonic() - started))
        raise
    append(folder, Sitting(begin=begin, seconds=monotonic() - started))


def append(folder: Path, line: CallEntry | Sitting) -> None:
    """Add one line. Raises `InfrastructureError` if the file cannot be written."""
    try:
        with (folder / FILE).open("a+b") as file:
            file.seek(0, 2)
            if file.tell() and (file.seek(-1, 2), file.read(1))[1] != b"\n":
                file.write(b"\n")  # after a line that was cut short
            file.write(line.model_dump_json().encode() + b"\n")
    except OSError as error:
        raise cannot_write(folder, error, RESUME) from error


def read_lines(folder: Path) -> list[CallEntry | Sitting]:
    """The calls and sittings of a run so far. Lines that were cut short, and attempts, are left out."""
    path = folder / FILE
    found = []
    for text in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else ():
        with suppress(ValueError, ValidationError):  # cut short by a kill or a full disk
            data = json.loads(text)
            if is_ledger_line(data):
                found.append(read_line(data))
    return found


def read_ledger(folder: Path) -> Ledger | None:
    """Where the run's time went so far; None where its history tells of no sitting."""
    return Ledger.of(read_lines(folder))


def write_history(folder: Path, attempts: Sequence[Attempt]) -> None:
    """Write the file anew: the attempts, then the calls and sittings that it holds. Raises `OSError`."""
    lines = (*attempts, *read_lines(folder))
    write_whole(folder / FILE, "".join(line.model_dump_json() + "\n" for line in lines))
