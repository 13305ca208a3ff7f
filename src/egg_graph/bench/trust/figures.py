"""The figures of docs/trust.md, taken from the results files that the commands wrote."""

import json
from pathlib import Path

from egg_graph.bench.trust.cost import CostResults
from egg_graph.bench.trust.faults import FaultResults
from egg_graph.bench.trust.soak import SoakResults
from egg_graph.bench.trust.spread import SpreadResults, told
from egg_graph.bench.trust.throughput import ThroughputResults
from egg_graph.bench.trust.values import CorpusResults, rates
from egg_graph.bench.trust.writing import table
from egg_graph.runs.files import write_whole
from egg_graph.schema import BadInput

BEGIN, END = "<!-- figures -->", "<!-- /figures -->"
"""Between these lines of a page its figures stand."""
DERIVED = ("summary", "complaints")
"""Fields of a results file that follow from the others."""


def figures(folder: Path) -> str:
    """Every results file `trust_*.json` of a folder, told in Markdown: a table of corpora, a list of the rest."""
    corpora: list[tuple[str, ...]] = []
    rest: list[str] = []
    for path in sorted(folder.glob("trust_*.json")):
        data = json.loads(path.read_text(encoding="utf-8"))
        for name in DERIVED:
            data.pop(name, None)
        link = f"[{path.stem}](results/{path.stem}.md)"
        if "folders" in data:
            corpora.append((link, *_corpus(CorpusResults.model_validate(data))))
        elif "turns" in data:
            rest.append(f"- {link}: {_soak(SoakResults.model_validate(data))}")
        elif "faults" in data:
            rest.append(f"- {link}: {_faults(FaultResults.model_validate(data))}")
        elif "verdicts" in data:
            rest.append(f"- {link}: {told(SpreadResults.model_validate(data))}")
        elif "cold_seconds" in data:
            rest.append(f"- {link}: {_cost(CostResults.model_validate(data))}")
        elif "paces" in data:
            rest.append(f"- {link}: {_throughput(ThroughputResults.model_validate(data))}")
    header = (
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
    return "\n".join([*table(header, corpora), "", *rest]).rstrip() + "\n"


def rewrite(page: Path, told: str) -> None:
    """Put the figures in their place on a page.

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
    write_whole(page, f"{head}{BEGIN}\n{told.strip()}\n{END}{tail}")


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
