"""A corpus run as a Markdown page."""

from egg_graph.bench.trust.rows import CorpusResults, CorpusRow, Rates, rates
from egg_graph.bench.writing import machine, table

HEADER = ("id", "name", "expected", "got", "finding", "outcome", "s")


def corpus_page(results: CorpusResults) -> str:
    """Terms, rates and one line a file."""
    lines = [
        f"# {results.name}",
        "",
        f"egg-graph {results.version} (evaluator {results.evaluator}), started {results.started}; ladder: "
        f"{results.ladder}; each file judged {results.repeat} time{'s' if results.repeat > 1 else ''}; written for "
        f"{results.target}; {machine(results.environment)}.",
        "",
        summary(rates(results.rows)),
        "",
        *table(HEADER, [cells(row) for row in results.rows]),
    ]
    if results.elsewhere:
        lines += ["", f"Not on this ladder, and not judged here: {', '.join(results.elsewhere)}."]
    return "\n".join(lines) + "\n"


def summary(found: Rates) -> str:
    """The rates in words."""
    told = []
    if found.tricks:
        told.append(
            f"Of {found.tricks - found.harmless} tricks and bugs {found.caught} were caught "
            f"({_percent(found.catch_rate)}); {found.missed} were accepted, {found.misnamed} rejected on other grounds "
            "than expected."
        )
    if found.harmless:
        told.append(f"{found.harmless} more were accepted, for they gain nothing here.")
    if found.honest:
        told.append(
            f"Of {found.honest} right kernels {found.false_rejects} were rejected ({found.false_reject_rate:.1%})."
        )
    if found.not_judged:
        told.append(f"{found.not_judged} could not be judged.")
    return " ".join(told) or "Nothing was judged."


def _percent(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:.1%}"


def cells(row: CorpusRow) -> tuple[str, ...]:
    """One line of the table."""
    header, run = row.header, row.told
    expected = ", ".join(header.expect) + (f" ({', '.join(header.finding)})" if header.finding else "")
    seconds = sum(each.seconds for each in row.runs) / len(row.runs)
    return (
        *(header.id, header.name, expected, run.status),
        *(", ".join(run.findings) or "-", row.outcome.replace("_", " "), f"{seconds:.1f}"),
    )
