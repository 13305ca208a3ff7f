"""Figures of docs/trust.md, read from the results files that the commands wrote."""

import json
from pathlib import Path

from egg_graph.bench.trust.rows import CorpusResults, rates
from egg_graph.bench.trust.spread import SpreadResults, describe_spread
from egg_graph.bench.writing import markdown_table, read_results
from egg_graph.runs.files import write_whole
from egg_graph.schema import BadInput
from tests.lab.cost import CostResults
from tests.lab.distinct_problems import DistinctProblemsResults
from tests.lab.faults import FaultResults
from tests.lab.soak import SoakResults
from tests.lab.throughput import ThroughputResults

BEGIN, END = "<!-- figures -->", "<!-- /figures -->"
"""The lines of a page between which its figures stand."""
HEADER = (
    "results",
    "corpora",
    "ladder",
    "times each",
    "caught",
    "harmless",
    "accepted",
    "otherwise rejected",
    "right rejected",
)


def read_figures(folder: Path) -> str:
    """Summarize every results file `trust_*.json` of a folder in Markdown: a table of corpora, a list of the rest."""
    corpora: list[tuple[str, ...]] = []
    rest: list[str] = []
    for path in sorted(folder.glob("trust_*.json")):
        data = json.loads(path.read_text(encoding="utf-8"))
        link = f"[{path.stem}](results/{path.stem}.md)"
        if "folders" in data:
            corpora.append((link, *_corpus(read_results(data, CorpusResults))))
        elif "turns" in data:
            rest.append(f"- {link}: {_soak(read_results(data, SoakResults))}")
        elif "faults" in data:
            rest.append(f"- {link}: {_faults(read_results(data, FaultResults))}")
        elif "verdicts" in data:
            rest.append(f"- {link}: {describe_spread(read_results(data, SpreadResults))}")
        elif "cold_seconds" in data:
            rest.append(f"- {link}: {_cost(read_results(data, CostResults))}")
        elif "judged" in data:
            rest.append(f"- {link}: {_distinct_problems(read_results(data, DistinctProblemsResults))}")
        elif "paces" in data:
            rest.append(f"- {link}: {_throughput(read_results(data, ThroughputResults))}")
    return "\n".join([*markdown_table(HEADER, corpora), "", *rest]).rstrip() + "\n"


def rewrite(page: Path, figures: str) -> None:
    """Replace the figures of a page.

    Raises:
        BadInput: if the page cannot be read, or has no place for them.
    """
    try:
        text = page.read_text(encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{page}: cannot be read: {error.strerror}") from error
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise BadInput(f"{page}: no place for figures: it needs one line {BEGIN} and one line {END}")
    head, tail = text.split(BEGIN)[0], text.split(END)[1]
    write_whole(page, f"{head}{BEGIN}\n{figures.strip()}\n{END}{tail}")


def _corpus(results: CorpusResults) -> tuple[str, ...]:
    found = rates(results.rows)
    accepted = [row.header.id for row in results.rows if row.outcome == "missed"]
    return (
        ", ".join(results.folders),
        (results.environment.gpu or "GPU") if results.ladder == "gpu" and results.environment else "no GPU",
        str(results.repeat),
        f"{found.caught} of {found.tricks - found.harmless}" if found.tricks else "-",
        f"{found.harmless}",
        f"{found.missed}" + (f" ({', '.join(accepted)})" if accepted else ""),
        str(found.misnamed),
        f"{found.false_rejects} of {found.honest}" if found.honest else "-",
    )


def _soak(results: SoakResults) -> str:
    complaints = "; ".join(results.complaints) or "nothing to complain of"
    right = len(results.good) - len(results.disturbed)
    done, rows = len(results.turns), results.workers
    count = f"{done} evaluations" if done == results.count else f"{done} of {results.count} evaluations"
    beside = "in one row" if rows == 1 else f"in {rows} rows side by side"
    return (
        f"{count} {beside} on the {results.ladder} ladder, {results.faults} of them of faulty "
        f"candidates, {right} of {len(results.good)} right kernels found right: {complaints}."
    )


def _faults(results: FaultResults) -> str:
    complaints = "; ".join(results.complaints) or "nothing to complain of"
    expected = sum(fault.as_expected for fault in results.faults)
    same = sum(fault.same_answer for fault in results.faults)
    longest = max((fault.seconds for fault in results.faults), default=0.0)
    return (
        f"{expected} of {len(results.faults)} faults on the {results.ladder} ladder got the verdict expected, the "
        f"slowest in {longest:.0f} s (a run may take {results.timeout:g} s); {same} of {len(results.faults)} right "
        f"kernels judged next got the answer of before, bit for bit: {complaints}."
    )


def _cost(results: CostResults) -> str:
    warm = min(results.warm_seconds, default=None)
    ours = f"{results.cold_seconds:.1f} s cold" + ("" if warm is None else f", {warm:.1f} s warm at best")
    theirs = results.kernelbench
    if theirs.not_measured or results.cold_overhead is None:
        return f"{ours}; KernelBench not measured ({theirs.not_measured})."
    warm_overhead = f", {results.warm_overhead:.2f} warm" if results.warm_overhead is not None else ""
    return f"{ours}; over KernelBench's own evaluation {results.cold_overhead:.2f} cold{warm_overhead}."


def _throughput(results: ThroughputResults) -> str:
    paces = [f"{pace.per_minute:.1f} a minute with {pace.workers} ({pace.kind})" for pace in results.paces]
    lost = sum(pace.lost for pace in results.paces)
    killed = [f"killed: {pace.killed}" for pace in results.paces if pace.killed]
    return "; ".join([*paces, *killed, f"{lost} lost"]) + "."


def _distinct_problems(results: DistinctProblemsResults) -> str:
    return (
        f"{results.per_minute:.1f} a minute with {results.workers} on one GPU, where each of {len(results.judged)} "
        f"kernels needs a baseline of its own; {len(results.complaints)} lost."
    )
