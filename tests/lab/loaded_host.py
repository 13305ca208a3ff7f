"""Judge right kernels on an idle host and on a loaded one, and tell which verdicts differ.

The loaded host has one busy process on each of its cores. Two evaluators judge every kernel in turn: one while the host
is idle, the other, its baseline included, while it is loaded.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from egg_graph.bench.provenance import Provenance, current_provenance
from egg_graph.bench.trust.corpus import candidate_of, task_of
from egg_graph.bench.trust.headers import Entry
from egg_graph.bench.writing import markdown_table, write_results
from egg_graph.context import Device, choose_target
from egg_graph.evaluator import LocalEvaluator, environment
from egg_graph.schema import Evaluation, Hardware, Value
from tests.lab.right_kernels import read_right_kernels

BUSY = "while True: pass"
"""Program of a busy process."""


class Verdict(Value):
    """One evaluation."""

    loaded: bool
    """Whether the host was loaded."""
    status: str
    reason: str
    ratio: float | None
    """Baseline time over candidate time; None where nothing was timed."""
    candidate_host_ms: float | None
    """Time of one call on the host [ms]."""
    clock: str | None
    """The clock within which the ratio was formed."""
    seconds: float


class Kernel(Value):
    """One right kernel with all of its verdicts."""

    file: str
    verdicts: tuple[Verdict, ...]

    def statuses(self, *, loaded: bool) -> tuple[str, ...]:
        """Statuses on one kind of host, each once, in order."""
        return tuple(dict.fromkeys(verdict.status for verdict in self.verdicts if verdict.loaded is loaded))

    @property
    def changed(self) -> tuple[Verdict, ...]:
        """Verdicts on the loaded host that the idle one never gave."""
        idle = self.statuses(loaded=False)
        return tuple(verdict for verdict in self.verdicts if verdict.loaded and verdict.status not in idle)

    def ratio(self, *, loaded: bool) -> float | None:
        """Median ratio on one kind of host; None where nothing was timed."""
        ratios = [v.ratio for v in self.verdicts if v.loaded is loaded and v.ratio is not None]
        return median(ratios) if ratios else None


class LoadedHostResults(Value):
    """Right kernels on an idle host and on a loaded one."""

    terms: Provenance
    repeats: int
    """Evaluations of each kernel on either kind of host."""
    busy_processes: int
    """Busy processes that loaded the host: one on each core."""
    asked: int
    """Kernels that were named; fewer were judged where the time was over."""
    kernels: tuple[Kernel, ...] = ()

    @property
    def evaluations(self) -> int:
        """Count of all evaluations."""
        return sum(len(kernel.verdicts) for kernel in self.kernels)

    @property
    def complaints(self) -> tuple[str, ...]:
        """Verdicts that the load changed, one line each."""
        return tuple(
            f"{kernel.file}: {verdict.status} where the idle host says {' or '.join(kernel.statuses(loaded=False))}: "
            f"{verdict.reason}"
            for kernel in self.kernels
            for verdict in kernel.changed
        )


def run_loaded_host(
    files: Sequence[Path],
    out: Path | None = None,
    *,
    repeats: int,
    seconds: float,
    device: Device,
    on_kernel: Callable[[Kernel], None],
) -> LoadedHostResults:
    """Judge every honest kernel of some files or folders on both kinds of host, and write the results after each.

    Args:
        files: files with headers, or folders of them; those that are not right are left out.
        out: results file.
        repeats: evaluations of each kernel on either kind of host.
        seconds: no further kernel is begun after this.
        device: where to judge.
        on_kernel: called with every kernel when its verdicts are there.

    Raises:
        BadInput: if there is no right kernel.
        InfrastructureError: if the machine fails.
    """
    entries = read_right_kernels(files, "cpu" if device == "none" else "gpu")
    cores = len(os.sched_getaffinity(0))
    results = LoadedHostResults(
        terms=current_provenance(environment()), repeats=repeats, busy_processes=cores, asked=len(entries)
    )
    until = time.monotonic() + seconds
    hardware = choose_target("auto")
    with LocalEvaluator(device=device) as idle, LocalEvaluator(device=device) as loaded:
        for entry in entries:
            if time.monotonic() > until:
                break
            kernel = _judge_both(entry, {False: idle, True: loaded}, hardware, repeats, cores)
            results = results.model_copy(update={"kernels": (*results.kernels, kernel)})
            if out is not None:
                write_results(out, results, loaded_host_page(results), complaints=results.complaints)
            on_kernel(kernel)
    return results


def _judge_both(
    entry: Entry, evaluators: dict[bool, LocalEvaluator], hardware: Hardware, repeats: int, cores: int
) -> Kernel:
    """Judge one kernel on the idle host, then on the loaded one."""
    task, candidate = task_of(entry, hardware), candidate_of(entry)

    def judge(loaded: bool) -> list[Verdict]:
        return [_verdict(evaluators[loaded].evaluate(task, candidate), loaded=loaded) for _ in range(repeats)]

    verdicts = judge(False)
    with busy_host(cores):
        verdicts += judge(True)
    return Kernel(file=entry.file, verdicts=tuple(verdicts))


def _verdict(evaluation: Evaluation, *, loaded: bool) -> Verdict:
    timing = evaluation.timing
    return Verdict(
        loaded=loaded,
        status=evaluation.status,
        reason=evaluation.reason,
        ratio=timing.ratio if timing else None,
        candidate_host_ms=timing.candidate_host_ms if timing else None,
        clock=timing.clock if timing else None,
        seconds=evaluation.seconds,
    )


@contextmanager
def busy_host(processes: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Keep so many cores busy for the block; yields the processes that do."""
    busy = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(processes)]
    try:
        yield busy
    finally:
        for process in busy:
            process.kill()
        for process in busy:
            process.wait()


def loaded_host_page(results: LoadedHostResults) -> str:
    """The verdicts as a Markdown page."""
    changed = sum(len(kernel.changed) for kernel in results.kernels)
    rows = [
        (
            kernel.file,
            *(", ".join(kernel.statuses(loaded=loaded)) for loaded in (False, True)),
            *(_ratio(kernel.ratio(loaded=loaded)) for loaded in (False, True)),
            f"{len(kernel.changed)} of {sum(verdict.loaded for verdict in kernel.verdicts)}",
        )
        for kernel in results.kernels
    ]
    header = ("kernel", "idle", "loaded", "ratio idle", "ratio loaded", "changed")
    lines = [
        "# verdicts on an idle host and on a loaded one",
        "",
        results.terms.line,
        "",
        f"{results.evaluations} evaluations of {len(results.kernels)} of {results.asked} right kernels, "
        f"{results.repeats} on either kind of host; loaded: {results.busy_processes} busy processes, one on each core. "
        f"**{changed} verdicts changed.** Ratios are medians.",
        "",
        *markdown_table(header, rows),
    ]
    lines += ["", *(f"- {complaint}" for complaint in results.complaints)] if results.complaints else []
    return "\n".join(lines) + "\n"


def _ratio(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.3f}"
