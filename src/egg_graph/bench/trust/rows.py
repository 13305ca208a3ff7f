"""What a corpus run leaves: one row a file, and the terms on which all of them were judged."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from egg_graph.bench.trust.headers import Header, Outcome
from egg_graph.schema import Environment, Value

BAD: tuple[Outcome, ...] = ("missed", "false_reject", "misnamed", "not_judged")
"""Outcomes that a trustworthy evaluator does not have, worst first."""


class Judged(Value):
    """One evaluation of one file."""

    status: str
    reason: str
    findings: tuple[str, ...] = ()
    """Kinds, each once."""
    outcome: Outcome
    seconds: float
    seed: int | None = None


class CorpusRow(Value):
    """One file."""

    header: Header
    file: str
    digest: str
    runs: tuple[Judged, ...]

    @property
    def outcome(self) -> Outcome:
        """The worst of its runs: a kernel that is rejected once in three times is falsely rejected."""
        found = {run.outcome for run in self.runs}
        return next((bad for bad in BAD if bad in found), self.runs[0].outcome)

    @property
    def told(self) -> Judged:
        """The run that the outcome comes from."""
        return next(run for run in self.runs if run.outcome == self.outcome)


class Rates(Value):
    """What the rows come to. Rates are None where there was nothing to count."""

    tricks: int = 0
    """Tricks and bugs that were judged."""
    caught: int = 0
    """Of them, rejected as expected."""
    harmless: int = 0
    """Of them, accepted as their headers allow: on this ladder they gain nothing."""
    misnamed: int = 0
    missed: int = 0
    honest: int = 0
    false_rejects: int = 0
    not_judged: int = 0
    seconds: float = 0.0
    """In evaluations, all together."""

    @property
    def catch_rate(self) -> float | None:
        gainful = self.tricks - self.harmless
        return self.caught / gainful if gainful else None

    @property
    def false_reject_rate(self) -> float | None:
        return self.false_rejects / self.honest if self.honest else None


class CorpusResults(Value):
    """All rows of a corpus run with all that is needed to read them, and to judge them again."""

    name: str
    version: str
    evaluator: str
    """Digest of the evaluator's own source: verdicts hold for that one."""
    started: str
    """UTC."""
    folders: tuple[str, ...]
    ladder: str
    """`cpu` or `gpu`."""
    repeat: int
    timeout: float
    """Seconds that one run of a candidate may take."""
    finalist: bool
    target: str
    environment: Environment | None = None
    rows: tuple[CorpusRow, ...] = ()
    elsewhere: tuple[str, ...] = ()
    """Files that exist on the other ladder only, and were not judged here."""


def rates(rows: Sequence[CorpusRow]) -> Rates:
    """Count a corpus run."""
    judged = [row for row in rows if row.outcome != "not_judged"]
    tricks = [row.outcome for row in judged if not row.header.honest]
    honest = [row.outcome for row in judged if row.header.honest]
    return Rates(
        tricks=len(tricks),
        caught=tricks.count("caught"),
        harmless=tricks.count("harmless"),
        misnamed=tricks.count("misnamed"),
        missed=tricks.count("missed"),
        honest=len(honest),
        false_rejects=honest.count("false_reject"),
        not_judged=len(rows) - len(judged),
        seconds=sum(run.seconds for row in rows for run in row.runs),
    )


def evaluator_digest() -> str:
    """SHA-256 of the installed evaluator's source files, as 16 hex digits."""
    import egg_graph.evaluator

    folder = Path(egg_graph.evaluator.__path__[0])
    whole = hashlib.sha256()
    for file in sorted(folder.rglob("*.py")):
        whole.update(str(file.relative_to(folder)).encode() + b"\0" + file.read_bytes())
    return whole.hexdigest()[:16]
