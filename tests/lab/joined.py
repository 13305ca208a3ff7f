"""One table of several benches: of one that was stopped and those that brought its other problems, by later code.

A bench joins only rows of one code. Here the code may differ, and each row says whose it is; team, policy, knobs, GPU,
driver and versions must agree.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from egg_graph.bench.figures import Figures
from egg_graph.bench.journal import TERMS
from egg_graph.bench.table import baseline_table, group_table, headline
from egg_graph.bench.values import Results, Row
from egg_graph.bench.writing import markdown_table, read_results, write_results
from egg_graph.schema import BadInput, Environment, Value

MAY_DIFFER = ("suite", "version", "code", "runs_dir")
"""Terms of a bench that need not be the same in all of them."""
AGREE: dict[str, Any] = {name: part for name, part in TERMS.items() if name not in MAY_DIFFER}
"""What must be the same in every bench."""


class Source(Value):
    """One bench, and how many of its rows stand in the table."""

    file: str
    commit: str
    code: str
    evaluator: str
    started: str
    gpus: int
    workers: int
    rows: int


class JoinedRow(Value):
    """One problem."""

    problem: str
    file: str
    """The bench that it was measured in."""
    operator_class: str
    status: str
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None


class JoinedResults(Value):
    """The rows of several benches; of a problem that is in several, the row of the last one."""

    name: str
    command: str
    of: int
    """How many problems there are, measured or not."""
    precision: str
    environment: Environment | None
    statistic: str
    sources: tuple[Source, ...]
    rows: tuple[JoinedRow, ...]


def join(files: Sequence[Path], out: Path, of: int) -> JoinedResults:
    """Write the table of several benches.

    Args:
        files: results files of benches (.json), in order: a later one's row of a problem counts.
        out: path of the joined results; its suffix is replaced.
        of: how many problems there are, measured or not.

    Raises:
        BadInput: if a file is none of a bench, the benches differ in more than code, or `out` cannot be written.
    """
    joined, merged, figures = joined_results(files, out, of)
    write_results(out, joined, joined_page(joined, merged, figures), summary=figures.summary())
    return joined


def joined_results(files: Sequence[Path], out: Path, of: int) -> tuple[JoinedResults, Results, Figures]:
    """The joined rows, the same as results of one bench, and their figures."""
    benches = {file.stem: _read(file) for file in files}
    first, *others = benches.items()
    for name, bench in others:
        if bench.model_dump(mode="json", include=AGREE) != first[1].model_dump(mode="json", include=AGREE):
            raise BadInput(f"{name} and {first[0]} differ in more than their code: they stand in no common table")
    rows: dict[str, tuple[str, Row]] = {row.name: (file, row) for file, b in benches.items() for row in b.whole}
    ordered = [rows[name] for name in sorted(rows, key=_natural)]
    counts = {file: sum(of_file == file for of_file, _ in ordered) for file in benches}
    bench = first[1]
    joined = JoinedResults(
        name=out.stem,
        command=f"python -m tests.lab joined {' '.join(map(str, files))} --of {of} --out {out}",
        of=of,
        precision=bench.precision,
        environment=bench.environment,
        statistic=bench.statistic,
        sources=tuple(_source(file, bench, counts[file]) for file, bench in benches.items()),
        rows=tuple(_joined_row(file, row) for file, row in ordered),
    )
    merged = bench.model_copy(update={"name": out.stem, "rows": tuple(row for _, row in ordered), "problems": None})
    return joined, merged, Figures.of(merged)


def joined_page(joined: JoinedResults, merged: Results, figures: Figures) -> str:
    """The table in Markdown."""
    terms = joined.environment
    gpu = "" if terms is None else f"{terms.gpu}, driver {terms.driver}, torch {terms.torch}, triton {terms.triton}. "
    missing = joined.of - len(joined.rows)
    lines = [
        f"# {joined.name}",
        "",
        f"Joined from {len(joined.sources)} benches of different code. {gpu}Precision {joined.precision}. "
        f"{len(joined.rows)} of {joined.of} problems; {missing} were not measured.",
        "",
        *headline(merged, figures.groups[0]),
        "",
        *group_table(figures.groups),
        "",
        *baseline_table(figures.groups[0]),
        "",
        *markdown_table(
            ("bench", "rows", "commit", "code", "evaluator", "started", "GPUs", "problems at a time"),
            [
                (s.file, str(s.rows), s.commit[:12], s.code, s.evaluator, s.started[:16], str(s.gpus), str(s.workers))
                for s in joined.sources
            ],
        ),
        "",
        *markdown_table(
            ("problem", "class", "verdict", "ratio (95 % interval)", "bench"),
            [(r.problem, r.operator_class, r.status.replace("_", " "), _ratio(r), r.file) for r in joined.rows],
        ),
        "",
        f"{joined.statistic} Written by `{joined.command}`.",
    ]
    return "\n".join(lines) + "\n"


def _read(file: Path) -> Results:
    try:
        return read_results(json.loads(file.read_text(encoding="utf-8")), Results)
    except (OSError, ValueError) as error:
        raise BadInput(f"{file}: no results of a bench: {str(error).splitlines()[0]}") from error


def _natural(name: str) -> list[tuple[int, str]]:
    """A key that puts level1/9 ahead of level1/10."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)]


def _source(file: str, bench: Results, rows: int) -> Source:
    return Source(
        file=file, commit=bench.commit, code=bench.code, evaluator=bench.evaluator, started=bench.started,
        gpus=bench.gpus, workers=bench.workers, rows=rows,
    )  # fmt: skip


def _joined_row(file: str, row: Row) -> JoinedRow:
    return JoinedRow(
        problem=row.name, file=file, operator_class=row.operator_class, status=row.status, ratio=row.ratio,
        ratio_low=row.ratio_low, ratio_high=row.ratio_high,
    )  # fmt: skip


def _ratio(row: JoinedRow) -> str:
    return "-" if row.ratio is None else f"{row.ratio:.3f} ({row.ratio_low:.3f} to {row.ratio_high:.3f})"
