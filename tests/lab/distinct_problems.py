"""Count evaluations a minute where every kernel has a reference of its own, and so needs a baseline of its own."""

import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from egg_graph.bench.provenance import Provenance, current_provenance
from egg_graph.bench.trust.corpus import candidate_of, task_of
from egg_graph.bench.trust.headers import Entry
from egg_graph.bench.writing import markdown_table, write_results
from egg_graph.context import Device, choose_target
from egg_graph.evaluator import environment
from egg_graph.evaluator.pool import EvaluatorPool
from egg_graph.schema import Value
from tests.lab.right_kernels import read_right_kernels


class Judged(Value):
    """One kernel."""

    file: str
    problem: str
    status: str
    began: float
    """Seconds after the first evaluation was asked for."""
    ended: float


class DistinctProblemsResults(Value):
    """Kernels of distinct problems, judged side by side. No worker was warm."""

    terms: Provenance
    workers: int
    cores: int
    asked: int
    """Problems that were named; fewer were begun where the time was over."""
    judged: tuple[Judged, ...] = ()

    @property
    def seconds(self) -> float:
        """Seconds from the first question to the last answer, the start of the workers included."""
        return max((row.ended for row in self.judged), default=0.0)

    @property
    def per_minute(self) -> float:
        """Kernels judged a minute."""
        return 60.0 * len(self.judged) / self.seconds if self.judged else 0.0

    @property
    def complaints(self) -> tuple[str, ...]:
        """Evaluations that were lost, one line each."""
        return tuple(f"{row.file}: {row.status}" for row in self.judged if row.status == "infra_error")


def run_distinct_problems(
    files: Sequence[Path],
    out: Path | None = None,
    *,
    workers: int,
    seconds: float,
    device: Device,
    on_judged: Callable[[Judged], None],
) -> DistinctProblemsResults:
    """Judge one right kernel of each problem, and write the results.

    Args:
        files: files with headers, or folders of them; those that are not right are left out, and all but the first of
            each problem.
        out: results file.
        workers: evaluators side by side on one GPU, or without one.
        seconds: no further kernel is begun after this.
        device: where to judge.
        on_judged: called with every kernel when its verdict is there.

    Raises:
        BadInput: if there is no right kernel.
    """
    here = environment()
    gpu = device != "none" and here.gpu is not None
    first: dict[str, Entry] = {}
    for entry in read_right_kernels(files, "gpu" if gpu else "cpu"):
        first.setdefault(entry.header.problem, entry)
    entries = list(first.values())
    hardware, began = choose_target("auto"), time.monotonic()
    pool = EvaluatorPool([0], workers_per_gpu=workers) if gpu else EvaluatorPool(workers=workers)

    def judge(entry: Entry) -> Judged | None:
        if (start := time.monotonic() - began) > seconds:
            return None
        status = pool.evaluate(task_of(entry, hardware), candidate_of(entry)).status
        ended = time.monotonic() - began
        judged = Judged(file=entry.file, problem=entry.header.problem, status=status, began=start, ended=ended)
        on_judged(judged)
        return judged

    try:
        with ThreadPoolExecutor(workers) as threads:
            judged = tuple(row for row in threads.map(judge, entries) if row is not None)
    finally:
        pool.close()
    results = DistinctProblemsResults(
        terms=current_provenance(here),
        workers=workers,
        cores=len(os.sched_getaffinity(0)),
        asked=len(entries),
        judged=judged,
    )
    if out is not None:
        write_results(out, results, distinct_problems_page(results), complaints=results.complaints)
    return results


def distinct_problems_page(results: DistinctProblemsResults) -> str:
    """The kernels as a Markdown page."""
    statuses = Counter(row.status for row in results.judged)
    rows = [
        (row.file, row.problem, row.status, f"{row.began:.1f}", f"{row.ended - row.began:.1f}")
        for row in sorted(results.judged, key=lambda row: row.ended)
    ]
    lines = [
        "# throughput on distinct problems",
        "",
        results.terms.line,
        "",
        f"**{results.per_minute:.1f} a minute**: {len(results.judged)} right kernels of as many problems of "
        f"{results.asked}, each with a baseline of its own, in {results.seconds:.0f} s, the start of the "
        f"{results.workers} workers included; {results.cores} cores, one GPU at most. "
        f"Verdicts: {', '.join(f'{count} {status}' for status, count in statuses.most_common())}.",
        "",
        *markdown_table(("kernel", "problem", "verdict", "began [s]", "took [s]"), rows),
    ]
    return "\n".join([*lines, *("", *results.complaints) * bool(results.complaints)]) + "\n"
