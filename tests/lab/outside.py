"""Judge kernels that others wrote and published, and tell whose fault each rejection is.

A folder given holds `kernels/` and `problems/` as a corpus does, and `sources.json`: where each kernel is from and,
where somebody found one, its fault. A kernel that is rejected without a fault of its own is rejected falsely. Neither
the folder nor what would make it is a part of this repository.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from egg_graph.bench.provenance import Provenance, current_provenance
from egg_graph.bench.trust.corpus import run_corpus
from egg_graph.bench.trust.headers import read_entries
from egg_graph.bench.trust.rows import CorpusRow, CorpusRun
from egg_graph.bench.writing import markdown_table, read_earlier, read_results, write_results
from egg_graph.context import Device
from egg_graph.evaluator import LocalEvaluator, environment
from egg_graph.schema import BadInput, Value

Verdict = Literal["accepted", "its own fault", "falsely rejected", "not judged"]
QUOTED = re.compile(r"(line \d+, in [^\s:]+|not valid Python: [^:(]*): .*", re.DOTALL)
"""Matches a reason that quotes a line of the kernel, which is not ours to show."""
SNIPPET = re.compile(r"(at \d+:\d+):.*\^", re.DOTALL)
"""Matches the lines of the kernel in a message of Triton's compiler, up to the mark below the last one."""
LONGEST = 160
"""Reasons are cut to this many characters on the page."""


class Source(Value):
    """Where a kernel is from."""

    repository: str
    """`owner/name` on GitHub."""
    commit: str
    path: str
    computes: str
    kind: Literal["library", "model"]
    """Who wrote it: people of a library, or a language model."""
    first_published: str = ""
    """The repository that it was first published in, where that is another one."""
    unseen: bool = False
    """Whether nobody looked at this source before the evaluator's last change."""
    fault: str = ""
    """What is wrong with it; empty if it is honest and right."""
    limits: str = ""
    """What it asks of its inputs and does not check, where its problem keeps to that."""


class OutsideRow(Value):
    """One kernel and what became of it."""

    name: str
    source: Source
    precision: str
    digest: str
    """Digest of kernel and problem."""
    run: CorpusRun

    @property
    def verdict(self) -> Verdict:
        """What the evaluation is worth."""
        if self.run.outcome == "not_judged":
            return "not judged"
        if self.run.outcome == "right":
            return "accepted"
        return "its own fault" if self.source.fault else "falsely rejected"

    @property
    def honest(self) -> bool:
        """Whether it was judged, and nobody found a fault of its own."""
        return self.verdict != "not judged" and not self.source.fault


class OutsideResults(Value):
    """All kernels of one run."""

    terms: Provenance
    ladder: str
    """`cpu` or `gpu`."""
    timeout: float
    """Seconds that one run of a kernel may take."""
    rows: tuple[OutsideRow, ...] = ()
    before: str = ""
    """Digest of an earlier evaluator, to compare with."""
    rejected_before: tuple[str, ...] = ()
    """Names of the honest kernels that it rejected."""

    @property
    def false(self) -> list[OutsideRow]:
        """The kernels that were rejected falsely."""
        return [row for row in self.rows if row.verdict == "falsely rejected"]


def read_sources(folder: Path) -> dict[str, Source]:
    """Read `sources.json` of a folder: name of a kernel -> where it is from.

    Raises:
        BadInput: if it is missing or malformed.
    """
    path = folder / "sources.json"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return {name: Source.model_validate(entry) for name, entry in data.items()}
    except (OSError, json.JSONDecodeError, AttributeError) as error:
        raise BadInput(f"{path}: cannot be read: {error}") from error
    except ValidationError as error:
        raise BadInput(f"{path}: {error.errors()[0]['loc'][0]}: {error.errors()[0]['msg']}") from error


def run_outside(
    folder: Path,
    out: Path | None,
    *,
    device: Device = "auto",
    workers: int = 1,
    timeout: float = 60.0,
    only: Sequence[str] = (),
    keep: bool = False,
    before: Path | None = None,
    evaluator: LocalEvaluator | None = None,
    on_row: Callable[[OutsideRow], None] = lambda _: None,
) -> OutsideResults:
    """Judge the kernels of a folder; `out` is written after every one.

    Args:
        folder: with `kernels/`, `problems/` and `sources.json`.
        out: results files.
        device: where to judge.
        workers: evaluators side by side.
        timeout: seconds that one run of a kernel may take.
        only: names to judge; all of them if empty.
        keep: keep the rows that `out` has of unchanged kernels; judge the rest.
        before: results of this command by an earlier evaluator, to compare with.
        evaluator: one that is already warm; it is left open.
        on_row: called with every new row.

    Raises:
        BadInput: if a file is missing or malformed, or a kernel has no source.
    """
    sources, kernels = read_sources(folder), folder / "kernels"
    entries = {entry.header.id: entry for entry in read_entries([kernels], folder / "problems")}
    if unknown := sorted(entries.keys() - sources.keys()):
        raise BadInput(f"{folder / 'sources.json'}: nothing on {', '.join(unknown)}")
    there = environment()
    ladder = "gpu" if there.gpu is not None and device != "none" else "cpu"
    results = OutsideResults(terms=current_provenance(there), ladder=ladder, timeout=timeout)
    kept: Iterable[OutsideRow] = ()
    if keep and out is not None:
        kept = read_earlier(out, results, {"ladder": True, "timeout": True, "terms": {"evaluator"}}).rows
    rows = {
        row.name: row.model_copy(update={"source": sources[row.name]})
        for row in kept
        if row.name in entries and entries[row.name].digest == row.digest and row.run.outcome != "not_judged"
    }

    def add(row: CorpusRow) -> None:
        name = row.header.id
        made = OutsideRow(
            name=name, source=sources[name], precision=row.header.precision, digest=row.digest, run=_unquoted(row.worst)
        )
        rows[name] = made
        on_row(made)
        _write(out, _gathered(results, rows, before))

    if names := [name for name in entries if name not in rows and (not only or name in only)]:
        run_corpus(
            [kernels], problems=folder / "problems", device=device, timeout=timeout, only=names, workers=workers,
            evaluator=evaluator, on_row=add,
        )  # fmt: skip
    gathered = _gathered(results, rows, before)
    _write(out, gathered)
    return gathered


def _gathered(results: OutsideResults, rows: Mapping[str, OutsideRow], before: Path | None) -> OutsideResults:
    """The results with these rows, and what an earlier evaluator made of the same kernels."""
    update: dict[str, object] = {"rows": tuple(rows[name] for name in sorted(rows))}
    if before is not None:
        earlier = read_results(json.loads(before.read_text(encoding="utf-8")), OutsideResults)
        rejected = {row.name for row in earlier.rows if row.run.outcome == "false_reject"}
        update |= {
            "before": earlier.terms.evaluator,
            "rejected_before": tuple(n for n in sorted(rows) if rows[n].honest and n in rejected),
        }
    return results.model_copy(update=update)


def _write(out: Path | None, results: OutsideResults) -> None:
    if out is not None:
        write_results(out, results, outside_page(results), summary=_counts(results, results.rows))


def outside_page(results: OutsideResults) -> str:
    """Counts, the false rejections, a table of repositories and one line a kernel, in Markdown."""
    groups = {
        "all": results.rows,
        "looked at before the last change": [row for row in results.rows if not row.source.unseen],
        "not looked at before": [row for row in results.rows if row.source.unseen],
        "of libraries": [row for row in results.rows if row.source.kind == "library"],
        "of language models": [row for row in results.rows if row.source.kind == "model"],
    }
    origins = sorted({_origin(row.source) for row in results.rows})
    groups |= {origin: [row for row in results.rows if _origin(row.source) == origin] for origin in origins}
    header = ["kernels", "not judged", "with a fault of their own", "honest", "falsely rejected"]
    header += [f"falsely rejected by {results.before}"] if results.before else []
    counts = [(name, *map(str, _counts(results, rows).values())) for name, rows in groups.items() if rows]
    false = [(row.name, row.run.status, _cut(row.run.reason)) for row in results.false]
    columns = ("kernel", "source", "computes", "policy", "verdict", "status", "cause")
    lines = [
        "# Kernels that others wrote", "", results.terms.line,
        f"Ladder: {results.ladder}; a run may take {results.timeout:g} s. The kernels are not in this repository.", "",
        *markdown_table(("", *header), counts), "", "## Falsely rejected", "",
        *(markdown_table(("kernel", "status", "reason"), false) if false else ["None."]), "", "## All", "",
        *markdown_table(columns, [_line(row) for row in results.rows]),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _unquoted(run: CorpusRun) -> CorpusRun:
    """The same without lines of the kernel in its reason."""
    return run.model_copy(update={"reason": SNIPPET.sub(r"\1:", QUOTED.sub(r"\1", run.reason))})


def _line(row: OutsideRow) -> tuple[str, ...]:
    source = row.source
    where = f"{source.repository}@{source.commit[:10]} {source.path}"
    where += f" (of {source.first_published})" if source.first_published else ""
    cause = "" if row.verdict == "accepted" else _cut(row.run.reason)
    if source.fault:
        cause = source.fault if row.verdict == "its own fault" else f"not shown here: {source.fault}"
    return (row.name, where, source.computes, row.precision, row.verdict, row.run.status, cause)


def _counts(results: OutsideResults, rows: Sequence[OutsideRow]) -> dict[str, int]:
    counts = {
        "kernels": len(rows),
        "not_judged": sum(row.verdict == "not judged" for row in rows),
        "faulty": sum(row.verdict != "not judged" and bool(row.source.fault) for row in rows),
        "honest": sum(row.honest for row in rows),
        "falsely_rejected": sum(row.verdict == "falsely rejected" for row in rows),
    }
    if results.before:
        counts["falsely_rejected_before"] = sum(row.name in results.rejected_before for row in rows)
    return counts


def _origin(source: Source) -> str:
    return source.first_published or source.repository


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
