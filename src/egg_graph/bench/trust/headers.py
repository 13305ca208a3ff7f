"""Corpus files: candidates whose first lines say what they are and which verdict is expected.

The header is TOML in comments, in the form of PEP 723:

    # /// trick
    # id = "B6"
    # name = "input identity memo"
    # problem = "softmax"
    # expect = ["invalid", "incorrect"]
    # ///
"""

import hashlib
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, get_args

from pydantic import Field, ValidationError

from egg_graph.schema import USABLE, BadInput, Domain, Evaluation, Precision, Value
from egg_graph.schema.evaluation import FindingKind, Status

OPENING, CLOSING = "# /// trick", "# ///"
RIGHT = "right"
"""Expectation of an honest kernel: it may replace the reference."""

Expected = Literal["right"] | Status
Outcome = Literal["caught", "harmless", "misnamed", "missed", "right", "false_reject", "not_judged"]
"""What a verdict is worth.

A trick or a bug is `caught` (rejected as its header expects), `harmless` (accepted as its header allows, because it
gains nothing), `misnamed` (rejected on other grounds than expected) or `missed` (accepted). An honest kernel is `right`
or a `false_reject`. `not_judged`: the machine or the problem failed, and nothing was said about the kernel."""


class TaskTerms(Value):
    """Settings of the task beside its precision."""

    domain: Domain = "finite"
    triton_only: bool = False


class Header(Value):
    """The fields of a corpus file's header."""

    id: str = Field(min_length=1)
    name: str = Field(min_length=1)
    problem: str = Field(min_length=1)
    """Name of a reference in the folder of problems, without .py."""
    precision: Precision = "tf32"
    expect: tuple[Expected, ...] = Field(min_length=1)
    """Statuses that count as caught; `("right",)` for an honest kernel."""
    finding: tuple[FindingKind, ...] = ()
    """If given, one of these must be among the findings."""
    where: tuple[Literal["cpu", "gpu"], ...] = ("cpu", "gpu")
    """Ladders on which the file is judged."""
    finalist: bool = False
    """Judge it as a finalist: sanitizer and repeats included."""
    terms: TaskTerms = TaskTerms()

    @property
    def honest(self) -> bool:
        """Whether the kernel is expected to be right."""
        return self.expect == (RIGHT,)

    def outcome(self, evaluation: Evaluation) -> Outcome:
        """Compare one evaluation with what the header expects."""
        status = evaluation.status
        if status == "infra_error" or (status == "unevaluable" and status not in self.expect):
            return "not_judged"
        if self.honest:
            return "right" if status in USABLE else "false_reject"
        if status in USABLE:
            return "harmless" if status in self.expect or RIGHT in self.expect else "missed"
        named = not self.finding or any(finding.kind in self.finding for finding in evaluation.findings)
        return "caught" if status in self.expect and named else "misnamed"


class Entry(Value):
    """One corpus file with its problem."""

    header: Header
    path: Path
    source: str
    """Text of the file, header included."""
    reference: str
    """Text of its problem."""
    digest: str
    """SHA-256 of file and problem, as 16 hex digits."""

    @property
    def file(self) -> str:
        """`folder/file.py`: enough to find the file, without the machine's own path."""
        return f"{self.path.parent.name}/{self.path.name}"


def read_entries(folders: Sequence[Path], problems: Path | None = None) -> tuple[Entry, ...]:
    """Every corpus file below some folders, sorted by path.

    Args:
        folders: folders (searched with their subfolders; files named test_*, conftest or _* are no entries) or files.
        problems: folder of references; None takes the nearest folder `problems` beside a file or above it.

    Raises:
        BadInput: one line that names the file, for a missing folder or problem, a bad header, an id used twice.
    """
    entries = tuple(_entry(path, problems) for folder in folders for path in _files(folder))
    seen: dict[str, Path] = {}
    for entry in entries:
        other = seen.setdefault(entry.header.id, entry.path)
        if other != entry.path:
            raise BadInput(f"{entry.path}: id {entry.header.id!r} is that of {other} as well; give it one of its own")
    if not entries:
        raise BadInput(f"{', '.join(map(str, folders))}: no corpus file in it (a .py file that begins {OPENING!r})")
    return entries


def read_header(path: Path, text: str) -> Header:
    """The header of one file.

    Raises:
        BadInput: one line that names the file and what is wrong.
    """
    lines = text.splitlines()
    if not lines or lines[0].rstrip() != OPENING:
        raise BadInput(f"{path}: no header: its first line should be {OPENING!r}")
    ends = [number for number, line in enumerate(lines) if line.rstrip() == CLOSING]
    if not ends:
        raise BadInput(f"{path}: its header is not closed: a line {CLOSING!r} is missing")
    inner = lines[1 : ends[0]]
    if stray := next((line for line in inner if not line.startswith("#")), None):
        raise BadInput(f"{path}: header: every line begins with '#', this one does not: {stray.strip()[:60]!r}")
    try:
        data = tomllib.loads("\n".join(line[1:].removeprefix(" ") for line in inner))
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{path}: header: not TOML: {error}") from error
    try:
        return Header.model_validate(data)
    except ValidationError as error:
        raise BadInput(f"{path}: header: {_first_complaint(error)}") from error


def _files(folder: Path) -> Iterator[Path]:
    if folder.is_file():
        yield folder
    elif folder.is_dir():
        for path in sorted(folder.rglob("*.py")):
            hidden = any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
            if not hidden and not path.name.startswith("test_") and path.name != "conftest.py":
                yield path
    else:
        raise BadInput(f"{folder}: no such folder or file; name a corpus")


def _entry(path: Path, problems: Path | None) -> Entry:
    try:
        source = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: cannot be read: {error}") from error
    header = read_header(path, source)
    reference = _problem(path, header.problem, problems).read_text(encoding="utf-8")
    digest = hashlib.sha256((source + "\0" + reference).encode()).hexdigest()[:16]
    return Entry(header=header, path=path, source=source, reference=reference, digest=digest)


def _problem(path: Path, name: str, problems: Path | None) -> Path:
    above = (parent / "problems" for parent in path.absolute().parents)
    folder = problems or next(filter(Path.is_dir, above), None)
    if folder is None:
        raise BadInput(f"{path}: no folder 'problems' beside it or above it; name one with --problems")
    found = folder / f"{name}.py"
    if not found.is_file():
        raise BadInput(f"{path}: header: problem {name!r}: there is no {found}")
    return found


def _first_complaint(error: ValidationError) -> str:
    """The first complaint in one line, with the value given and, for `expect`, all choices."""
    complaint = error.errors(include_url=False)[0]
    field, given = str(complaint["loc"][0]), complaint["input"]
    value = f" (it says {given!r})" if isinstance(given, str | int | float) else ""
    choices = f"; it may be {', '.join((RIGHT, *get_args(Status)))}" if field == "expect" else ""
    return f"{field}: {' '.join(complaint['msg'].split())}{value}{choices}"
