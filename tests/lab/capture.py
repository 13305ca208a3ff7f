"""Time the embedded expert's capture of every reference of some folders, without a GPU."""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Literal

from egg_graph.bench.provenance import Provenance, current_provenance
from egg_graph.bench.writing import markdown_table, write_results
from egg_graph.expert import CannotCapture, capture_graph
from egg_graph.expert.capture.process import running_process
from egg_graph.knowledge import load_hardware
from egg_graph.schema import BadInput, InfrastructureError, KernelTask, Precision, Value


class Capture(Value):
    """One capture."""

    problem: str
    """`level2/80_Gemm_Max_Subtract_GELU`: folder and file."""
    outcome: Literal["captured", "no graph", "bad input", "failed"]
    message: str = ""
    """Why there is no graph."""
    operators: int = 0
    shapes: int = 0
    """Number of shapes that the graph holds."""
    seconds: float
    """From the call to its answer."""
    cpu_seconds: float | None
    """Time on processors; None where the process that captures was lost."""


class CaptureResults(Value):
    """The captures of one run, all by one warm process."""

    terms: Provenance
    precision: Precision
    rows: tuple[Capture, ...] = ()


def run_captures(
    references: Sequence[Path], out: Path | None, *, precision: Precision, on_capture: Callable[[Capture], None]
) -> CaptureResults:
    """Capture one reference after another. `out` is written after every one.

    Raises:
        BadInput: if a file cannot be read, or the results cannot be written.
    """
    results = CaptureResults(terms=current_provenance(), precision=precision)
    for path in references:
        row = _captured(path, precision)
        on_capture(row)
        results = results.model_copy(update={"rows": (*results.rows, row)})
        if out is not None:
            write_results(out, results, captures_page(results))
    return results


def _captured(path: Path, precision: Precision) -> Capture:
    task = KernelTask(
        name=path.stem, reference=path.read_text(encoding="utf-8"), target=load_hardware("h200"), precision=precision
    )
    before, started = _cpu_seconds(), time.monotonic()
    outcome: Literal["captured", "no graph", "bad input", "failed"] = "captured"
    message, operators, shapes = "", 0, 0
    try:
        graph = capture_graph(task)
        operators, shapes = len(graph.operators), len(graph.knobs)
    except CannotCapture as error:
        outcome, message = "no graph", str(error)
    except BadInput as error:
        outcome, message = "bad input", str(error)
    except InfrastructureError as error:
        outcome, message = "failed", str(error)
    seconds, after = time.monotonic() - started, _cpu_seconds()
    cpu = after - (before or 0.0) if after is not None else None
    return Capture(
        problem=f"{path.parent.name}/{path.stem}", outcome=outcome, message=message, operators=operators, shapes=shapes,
        seconds=seconds, cpu_seconds=cpu,
    )  # fmt: skip


def _cpu_seconds() -> float | None:
    """Time on processors of the warm process and of its ended forks; None if there is no such process."""
    process = running_process()
    if process is None:
        return None
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")  # utime, stime, cutime, cstime


def captures_page(results: CaptureResults) -> str:
    """A summary by folder, and one row for each problem, in Markdown."""
    folders = dict.fromkeys(row.problem.partition("/")[0] for row in results.rows)
    summary = []
    for folder in folders:
        rows = [row for row in results.rows if row.problem.startswith(f"{folder}/")]
        seconds = [row.cpu_seconds for row in rows if row.cpu_seconds is not None]
        spent = (f"{f(seconds):.1f}" if seconds else "" for f in (mean, median, max))
        captured = sum(row.outcome == "captured" for row in rows)
        summary.append((folder, str(len(rows)), str(captured), *spent))
    header = ("folder", "problems", "captured", "CPU s, mean", "median", "most")
    lines = [
        (row.problem, row.outcome, str(row.operators), str(row.shapes), f"{row.seconds:.1f}",
         "" if row.cpu_seconds is None else f"{row.cpu_seconds:.1f}", row.message)
        for row in results.rows
    ]  # fmt: skip
    names = ("problem", "outcome", "operators", "shapes", "seconds", "CPU s", "why")
    summary_table, table = ("\n".join(markdown_table(*parts)) for parts in ((header, summary), (names, lines)))
    return (
        f"# Capture without a GPU\n\nprecision {results.precision}; one warm process, its start is in the first row\n\n"
        f"{summary_table}\n\n{table}\n"
    )
