"""The journal of a bench: what is written before anything else, so that a killed bench goes on where it was.

`<out>.jsonl` has one JSON object a line: the terms first, then `begun` for every run, before its first step, and `row`
for every problem that is done. Each line is on the disk before the bench goes on. Results and page follow from it.
"""

import fcntl
import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from egg_graph.bench.values import NO_RUN, Results, Row
from egg_graph.bench.worker import Job
from egg_graph.schema import BadInput

TERMS: dict[str, Any] = {
    "suite": True,
    "version": True,
    "code": True,
    "model": True,
    "judge": True,
    "parts": True,
    "runs_dir": True,
    "target": True,
    "settings": True,
    "environment": {"gpu", "driver", "cuda", "torch", "triton", "python"},
}
"""What must agree for rows to stand in one table."""


class Key(NamedTuple):
    """What one row is about. A reference that was edited is another problem."""

    name: str
    without: str
    source: str


class Journal:
    """The open journal of a bench. While it is open, no other process can open it.

    Args:
        path: the file.
        fresh: results without rows, with the terms of the bench that starts.
        anew: leave what is there, and begin with an empty journal.
        retry: leave the rows of problems whose run could not be made.

    Raises:
        BadInput: if the file cannot be written, is no journal, has other terms, or another process has it open.
    """

    def __init__(self, path: Path, fresh: Results, *, anew: bool = False, retry: bool = False) -> None:
        self.path = path
        self.begun: dict[Key, str] = {}
        """Name of the run's folder, of every run that was begun."""
        self.rows: dict[Key, Row] = {}
        self.results = fresh
        """The results with the terms and the time of the first start, and the larger number of problems."""
        self._file = self._open()
        try:
            if anew:
                os.ftruncate(self._file, 0)
            self._read(retry)
        except BaseException:
            os.close(self._file)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)

    def begin(self, key: Key, run: str) -> None:
        """Write that a run is begun in a folder. From then on it is resumed, never started again."""
        self.begun[key] = run
        self._write({"begun": key._asdict(), "run": run})

    def finish(self, row: Row) -> None:
        """Write a row."""
        self.rows[key_of(row)] = row
        self._write({"row": row.model_dump(mode="json")})

    def _open(self) -> int:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise BadInput(f"{self.path}: cannot be written: {error.strerror}; give another --out") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(file)
            raise BadInput(f"{self.path}: another process is at work on this bench; give another --out") from error
        return file

    def _read(self, retry: bool) -> None:
        """Read what an earlier process wrote. A line without an end was being written when it was killed."""
        with open(self._file, "rb", closefd=False) as file:
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        os.ftruncate(self._file, len(whole))
        os.lseek(self._file, 0, os.SEEK_END)
        if not whole:
            self._write({"terms": self.results.model_dump(mode="json", exclude={"rows"})})
            return
        first, *rest = [self._parse(number, line) for number, line in enumerate(whole.splitlines(), 1)]
        if "terms" not in first:
            raise BadInput(f"{self.path}: no journal of a bench; give another --out")
        self._agree(Results.model_validate(first["terms"]))
        for entry in rest:
            self._take(entry, retry)

    def _take(self, entry: dict[str, Any], retry: bool) -> None:
        if "begun" in entry:
            self.begun[Key(**entry["begun"])] = entry["run"]
        elif "row" in entry:
            row = Row.model_validate(entry["row"])
            if not (retry and row.status in NO_RUN):
                self.rows[key_of(row)] = row

    def _agree(self, earlier: Results) -> None:
        """Refuse rows that were measured on other terms."""
        old, new = (each.model_dump(mode="json", include=TERMS) for each in (earlier, self.results))
        other = [name for name in TERMS if old[name] != new[name]]
        if other:
            told = " and ".join(_difference(name, old[name], new[name]) for name in other)
            raise BadInput(f"{self.path}: begun with other {told}; give another --out, or --anew to begin it again")
        problems = max(earlier.problems or 0, self.results.problems or 0)
        self.results = self.results.model_copy(update={"started": earlier.started, "problems": problems})

    def _parse(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            value = json.loads(line)
        except ValueError as error:
            raise BadInput(f"{self.path}:{number}: damaged; mend the line, or give --anew to begin again") from error
        if not isinstance(value, dict):
            raise BadInput(f"{self.path}: no journal of a bench; give another --out")
        return value

    def _write(self, entry: dict[str, Any]) -> None:
        line = json.dumps(entry, separators=(",", ":")).encode() + b"\n"
        try:
            written = 0
            while written < len(line):
                written += os.write(self._file, line[written:])
            os.fsync(self._file)
        except OSError as error:
            raise BadInput(f"{self.path}: cannot be written: {error.strerror}") from error


def key_of(about: Row | Job) -> Key:
    """The key of a row, or of the job that is to bring it."""
    return Key(about.name, about.without, about.source)


def _difference(term: str, old: Any, new: Any) -> str:
    """A term with what it was and what it is: of several settings those that differ."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return f"{term} ({_short(old)} -> {_short(new)})"
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    told = ", ".join(f"{name} {_short(old.get(name))} -> {_short(new.get(name))}" for name in names)
    return f"{term} ({told})"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) and value else json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."
