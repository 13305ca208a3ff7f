"""Judge the embedded expert's first kernel for each reference at the reference's own shape: seconds and GPU memory.

Each reference has an evaluator of its own on one of the GPUs. The kernel is judged once by a cold evaluator and then
again by the same one; a finalist's evaluation follows if it is asked for.
"""

import queue
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any, Literal

from egg_graph import optimize
from egg_graph.bench.provenance import Provenance, current_provenance
from egg_graph.bench.writing import markdown_table, read_earlier, write_results
from egg_graph.evaluator import LocalEvaluator, environment
from egg_graph.evaluator.device.detect import visible_gpus
from egg_graph.evaluator.device.nvml import open_nvml
from egg_graph.schema import (
    BadInput,
    Baseline,
    Candidate,
    Evaluation,
    InfrastructureError,
    KernelTask,
    Precision,
    Value,
)

POLL = 0.1
"""Seconds between two looks at the GPU's memory."""
GIB = float(1 << 30)
What = Literal["baseline", "cold", "warm", "finalist"]


class Call(Value):
    """One call of the evaluator."""

    what: What
    begin: float
    """Since the reference's turn began [s]."""
    seconds: float
    peak_bytes: int | None = None
    """Most memory in use on the GPU by all processes; None without a GPU."""
    status: str = ""
    reason: str = ""
    ratio: float | None = None
    """Speedup over the baseline."""
    full_shape: str = ""
    """Outcome of the comparison at full shape."""
    rungs: dict[str, float] = {}
    """Seconds by rung."""


class FullSizeRow(Value):
    """The calls for one reference."""

    problem: str
    calls: tuple[Call, ...] = ()
    failed: str = ""
    """Why there is no kernel or no answer; empty if nothing failed."""

    def seconds(self, what: What) -> float | None:
        """Seconds of the first call of a kind; None if there was none."""
        return next((call.seconds for call in self.calls if call.what == what), None)

    @property
    def peak_bytes(self) -> int:
        """Most memory in use in any call."""
        return max((call.peak_bytes or 0 for call in self.calls), default=0)

    @property
    def last(self) -> Call | None:
        """The last evaluation."""
        return next((call for call in reversed(self.calls) if call.what != "baseline"), None)


class FullSizeResults(Value):
    """References judged at their own shapes."""

    terms: Provenance
    precision: Precision
    asked: int
    workers: int = 1
    """References at a time on each GPU."""
    rows: tuple[FullSizeRow, ...] = ()


class Measured(LocalEvaluator):
    """An evaluator that notes the seconds and the peak of GPU memory of its calls, and judges every kernel twice."""

    def __init__(self, gpu: str | None, *, finalists: bool, once: bool) -> None:
        super().__init__(device="gpu" if gpu else "none", profile=not once, gpu=gpu)
        self.gpu, self.finalists = gpu, finalists
        self.calls_wanted: tuple[What, ...] = ("cold",) if once else ("cold", "warm")
        self.began = time.monotonic()
        self.calls: list[Call] = []

    def baseline(self, task: KernelTask, *, tuned: bool = False) -> Baseline:
        return self._noted("baseline", lambda: LocalEvaluator.baseline(self, task, tuned=tuned))

    def evaluate(self, task: KernelTask, candidate: Candidate, **options: Any) -> Evaluation:
        if options.get("finalist"):
            if not self.finalists:
                raise Enough
            return self._noted("finalist", lambda: LocalEvaluator.evaluate(self, task, candidate, **options))
        for what in self.calls_wanted:
            evaluation = self._noted(what, lambda: LocalEvaluator.evaluate(self, task, candidate, **options))
        return evaluation

    def _noted(self, what: What, call: Callable[[], Any]) -> Any:
        begun = time.monotonic()
        with peak_of(self.gpu) as peak:
            answer = call()
        seconds = time.monotonic() - begun
        noted = Call(what=what, begin=begun - self.began, seconds=seconds, peak_bytes=peak[0] if self.gpu else None)
        self.calls.append(noted.model_copy(update=_told(answer)))
        return answer


class Enough(Exception):
    """Ends a run whose finalist is not wanted."""


def run_full_size(
    references: Sequence[Path],
    out: Path | None = None,
    *,
    precision: Precision = "tf32",
    finalists: bool = False,
    once: bool = False,
    workers: int = 1,
    seconds: float = float("inf"),
    keep: bool = False,
    on_row: Callable[[FullSizeRow], None] | None = None,
) -> FullSizeResults:
    """Judge the expert's first kernel for each reference.

    Args:
        references: files in KernelBench's form, dealt over the GPUs in order.
        out: results file, rewritten after every reference.
        precision: the policy.
        finalists: also judge the kernel as a finalist.
        once: judge each kernel once, and take no profile.
        workers: references at a time on each GPU; where there are several, seconds and memory are those of all.
        seconds: begin no further reference after this [s].
        keep: keep the rows that `out` has, and judge the rest.
        on_row: called with each row as it comes.
    """
    gpus = visible_gpus() or (None,)
    results = FullSizeResults(
        terms=current_provenance(environment(use_gpu=gpus != (None,))), precision=precision, asked=len(references)
    ).model_copy(update={"workers": workers})
    if keep and out is not None:
        results = read_earlier(out, results, {"terms": {"evaluator", "environment"}, "precision": True})
        results = results.model_copy(update={"asked": len(references)})
    done = {row.problem for row in results.rows}
    free: queue.Queue[str | None] = queue.Queue()
    for gpu in gpus * workers:
        free.put(gpu)
    end, lock = time.monotonic() + seconds, threading.Lock()

    def one(reference: Path) -> None:
        nonlocal results
        gpu = free.get()
        try:
            if time.monotonic() > end or name_of(reference) in done:
                return
            row = judge_one(reference, gpu, precision, finalists=finalists, once=once)
        finally:
            free.put(gpu)
        with lock:
            results = results.model_copy(update={"rows": (*results.rows, row)})
            if out is not None:
                write_results(out, results, full_size_page(results), summary=summary(results))
        if on_row is not None:
            on_row(row)

    with ThreadPoolExecutor(len(gpus) * workers) as pool:
        list(pool.map(one, references))
    return results


def judge_one(reference: Path, gpu: str | None, precision: Precision, *, finalists: bool, once: bool) -> FullSizeRow:
    """Judge the expert's first kernel for one reference on one GPU."""
    failed = ""
    with Measured(gpu, finalists=finalists, once=once) as evaluator, tempfile.TemporaryDirectory() as runs:
        try:
            optimize(reference, evaluator=evaluator, precision=precision, runs_dir=runs, max_attempts=1, tune=False)
        except Enough:
            pass
        except (BadInput, InfrastructureError) as error:
            failed = f"{type(error).__name__}: {error}"
        return FullSizeRow(problem=name_of(reference), calls=tuple(evaluator.calls), failed=failed)


@contextmanager
def peak_of(gpu: str | None) -> Iterator[list[int]]:
    """The most memory in use on a GPU during the block [bytes], in a list of one."""
    peak, over = [0], threading.Event()

    def watch() -> None:
        with open_nvml() as nvml:
            while nvml is not None and not over.wait(POLL):
                handle = nvml.nvmlDeviceGetHandleByUUID(gpu)
                peak[0] = max(peak[0], int(nvml.nvmlDeviceGetMemoryInfo(handle).used))

    watcher = threading.Thread(target=watch, daemon=True)
    if gpu is not None:
        watcher.start()
    try:
        yield peak
    finally:
        over.set()
        if gpu is not None:
            watcher.join()


def summary(results: FullSizeResults) -> dict[str, float | None]:
    """Medians over the references, and the extremes."""
    medians = {
        f"median_{what}_seconds": median(times) if (times := _times(results, what)) else None
        for what in ("baseline", "cold", "warm", "finalist")
    }
    judged = [row for row in results.rows if row.last is not None and row.last.full_shape == "passed"]
    timed = [row for row in judged if row.last is not None and row.last.ratio is not None]
    peak = max((row.peak_bytes for row in results.rows), default=0)
    ratios = [row.last.ratio for row in timed if row.last is not None and row.last.ratio is not None]
    return {
        **medians,
        "judged_at_full_shape": len(judged),
        "timed": len(timed),
        "geometric_mean": geometric_mean(ratios) if ratios else None,
        "geometric_mean_pytorch_kept": geometric_mean([max(r, 1.0) for r in ratios]) if ratios else None,
        "peak_gib": peak / GIB,
    }


def full_size_page(results: FullSizeResults) -> str:
    """The rows as a Markdown page."""
    told = summary(results)
    rows = [_line(row) for row in sorted(results.rows, key=lambda row: -row.peak_bytes)]
    header = ("problem", "verdict", "ratio", "at full shape", "baseline", "cold", "warm", "finalist", "peak [GiB]")
    lines = ["# References judged at their own shapes", ""]
    lines += [f"{results.terms.line} Precision {results.precision}; the embedded expert's first kernel; seconds.", ""]
    if results.workers > 1:
        lines += [
            f"{results.workers} references at a time on one GPU: seconds and memory are those of all.",
            "",
        ]
    lines += [
        f"{len(results.rows)} of {results.asked} references; {told['judged_at_full_shape']} judged at full shape, "
        f"{told['timed']} timed; medians: baseline {_shown(told['median_baseline_seconds'])} s, first evaluation "
        f"{_shown(told['median_cold_seconds'])} s, second {_shown(told['median_warm_seconds'])} s; most memory in use "
        f"{told['peak_gib']:.1f} GiB, all processes together.",
        "",
    ]
    if told["geometric_mean"] is not None and told["geometric_mean_pytorch_kept"] is not None:
        lines += [
            "Ratio to the better of eager and torch.compile: geometric mean "
            f"{told['geometric_mean']:.3f} of the timed, {told['geometric_mean_pytorch_kept']:.3f} where PyTorch is "
            "kept for a slower kernel.",
            "",
        ]
    return "\n".join([*lines, *markdown_table(header, rows)]) + "\n"


def name_of(reference: Path) -> str:
    """Folder and file of a reference: `level1/21_Sigmoid`."""
    return f"{reference.parent.name}/{reference.stem}"


def _told(answer: Baseline | Evaluation) -> dict[str, Any]:
    if isinstance(answer, Baseline):
        return {"status": "unevaluable" if answer.unevaluable else "", "reason": answer.unevaluable}
    full = next((rung.outcome for rung in answer.rungs if rung.name == "correctness_full"), "")
    rungs: dict[str, float] = {}
    for rung in answer.rungs:
        rungs[rung.name] = round(rungs.get(rung.name, 0.0) + rung.seconds, 3)
    ratio = answer.timing.ratio if answer.timing is not None else None
    return {"status": answer.status, "reason": answer.reason, "ratio": ratio, "full_shape": full, "rungs": rungs}


def _line(row: FullSizeRow) -> tuple[str, ...]:
    last = row.last
    status = last.status if last is not None else next((c.status for c in row.calls if c.status), "")
    ratio = f"{last.ratio:.2f}" if last is not None and last.ratio is not None else "-"
    why = row.failed or ("" if last is not None and last.ratio is not None else _reason(row))
    seconds = [_shown(row.seconds(what)) for what in ("baseline", "cold", "warm", "finalist")]
    peak = f"{row.peak_bytes / GIB:.1f}" if row.peak_bytes else "-"
    verdict = f"{status}: {why[:200]}" if why else status
    return (row.problem, verdict, ratio, last.full_shape if last is not None else "-", *seconds, peak)


def _reason(row: FullSizeRow) -> str:
    return next((call.reason for call in reversed(row.calls) if call.reason), "")


def _times(results: FullSizeResults, what: What) -> list[float]:
    return [seconds for row in results.rows if (seconds := row.seconds(what)) is not None]


def _shown(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.1f}"
