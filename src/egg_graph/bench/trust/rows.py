"""The results of a corpus run: one row a file, the rates, and the page."""

from collections.abc import Sequence

from egg_graph.bench.provenance import describe_machine
from egg_graph.bench.trust.headers import Header, Outcome
from egg_graph.bench.writing import markdown_table
from egg_graph.schema import Environment, Value

BAD: tuple[Outcome, ...] = ("missed", "false_reject", "misnamed", "not_judged")
"""Outcomes that a trustworthy evaluator does not have, worst first."""
COLUMNS = ("id", "name", "expected", "got", "finding", "outcome", "s")


class CorpusRun(Value):
    """One evaluation of one corpus file."""

    status: str
    reason: str
    findings: tuple[str, ...] = ()
    """Kinds of its findings, each once."""
    outcome: Outcome
    seconds: float
    seed: int | None = None


class CorpusRow(Value):
    """One corpus file with its evaluations."""

    header: Header
    file: str
    """`folder/file.py`."""
    digest: str
    """Digest of file and problem, as `Entry.digest`."""
    runs: tuple[CorpusRun, ...]

    @property
    def outcome(self) -> Outcome:
        """The worst of its runs: a kernel that is rejected once in three times is falsely rejected."""
        found = {run.outcome for run in self.runs}
        return next((bad for bad in BAD if bad in found), self.runs[0].outcome)

    @property
    def worst(self) -> CorpusRun:
        """The run that the outcome comes from."""
        return next(run for run in self.runs if run.outcome == self.outcome)


class Rates(Value):
    """Counts over the rows of a corpus run. A rate is None where there was nothing to count."""

    tricks: int = 0
    """Tricks and bugs that were judged."""
    caught: int = 0
    """Tricks and bugs rejected as expected."""
    harmless: int = 0
    """Tricks and bugs accepted as their headers allow: on this ladder they gain nothing."""
    misnamed: int = 0
    missed: int = 0
    honest: int = 0
    false_rejects: int = 0
    not_judged: int = 0
    seconds: float = 0.0
    """Seconds of all evaluations together."""

    @property
    def catch_rate(self) -> float | None:
        """Caught tricks and bugs over those that are not harmless."""
        gainful = self.tricks - self.harmless
        return self.caught / gainful if gainful else None

    @property
    def false_reject_rate(self) -> float | None:
        """Rejected right kernels over all right kernels."""
        return self.false_rejects / self.honest if self.honest else None


class CorpusResults(Value):
    """The rows of a corpus run, with what is needed to read them and to judge the files again."""

    name: str
    version: str
    evaluator: str
    """Digest of the evaluator's own source; the verdicts hold for that source."""
    started: str
    """Time of the start, UTC, ISO 8601."""
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
    """Ids of the files that are for the other ladder only, and were not judged."""


def rates(rows: Sequence[CorpusRow]) -> Rates:
    """Count the outcomes of a corpus run."""
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


def corpus_page(results: CorpusResults) -> str:
    """A Markdown page: provenance, rates and one line a file."""
    lines = [
        f"# {results.name}",
        "",
        f"egg-graph {results.version} (evaluator {results.evaluator}), started {results.started}; ladder: "
        f"{results.ladder}; each file judged {results.repeat} time{'s' if results.repeat > 1 else ''}; written for "
        f"{results.target}; {describe_machine(results.environment)}.",
        "",
        summary(rates(results.rows)),
        "",
        *markdown_table(COLUMNS, [cells(row) for row in results.rows]),
    ]
    if results.elsewhere:
        lines += ["", f"Not on this ladder, and not judged here: {', '.join(results.elsewhere)}."]
    return "\n".join(lines) + "\n"


def summary(found: Rates) -> str:
    """The rates as sentences."""
    sentences = []
    if found.tricks:
        rate = "-" if found.catch_rate is None else f"{found.catch_rate:.1%}"
        sentences.append(
            f"Of {found.tricks - found.harmless} tricks and bugs {found.caught} were caught ({rate}); "
            f"{found.missed} were accepted, {found.misnamed} rejected on other grounds than expected."
        )
    if found.harmless:
        sentences.append(f"{found.harmless} more were accepted, for they gain nothing here.")
    if found.honest:
        sentences.append(
            f"Of {found.honest} right kernels {found.false_rejects} were rejected ({found.false_reject_rate:.1%})."
        )
    if found.not_judged:
        sentences.append(f"{found.not_judged} could not be judged.")
    return " ".join(sentences) or "Nothing was judged."


def cells(row: CorpusRow) -> tuple[str, ...]:
    """One line of the table, in the order of `COLUMNS`."""
    header, run = row.header, row.worst
    expected = ", ".join(header.expect) + (f" ({', '.join(header.finding)})" if header.finding else "")
    seconds = sum(each.seconds for each in row.runs) / len(row.runs)
    return (
        header.id,
        header.name,
        expected,
        run.status,
        ", ".join(run.findings) or "-",
        row.outcome.replace("_", " "),
        f"{seconds:.1f}",
    )
