"""Time whole runs of the embedded expert and single evaluations, for problems at their own shapes.

Each problem has an evaluator of its own on one of the GPUs. A whole run comes first; its ledger tells baseline, first
verdict, sweeps and finalist. Behind it the same evaluator judges the run's first right kernel again, and the same
kernel made wrong. KernelBench, if a checkout is named, judges the right kernels in the end.
"""

import itertools
import json
import math
import queue
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

from egg_graph import optimize
from egg_graph.bench.provenance import current_provenance
from egg_graph.bench.writing import read_earlier, read_results, write_results
from egg_graph.cli.files import read_source
from egg_graph.evaluator import LocalEvaluator, environment
from egg_graph.evaluator.device.detect import visible_gpus
from egg_graph.evaluator.protocol import Profiling
from egg_graph.evaluator.second_judge import SecondJudge
from egg_graph.runs.history import read_lines
from egg_graph.schema import BadInput, CallEntry, Candidate, Evaluation, KernelTask, Precision, Trial
from egg_graph.schema.evaluation import USABLE
from tests.lab.full_size import name_of, peak_of
from tests.lab.kernelbench_turns import judge_in_turn
from tests.lab.times_page import summary, times_page
from tests.lab.times_rows import SingleCall, TimesResults, TimesRow, What, figures_of
from tests.lab.wrong_kernel import wrong_kernels

MOST_WRONG = 3
"""Stores of a kernel that are made wrong, one after the other, until it is refused."""
Job = TypeVar("Job")


class Watched(LocalEvaluator):
    """An evaluator that notes how many configurations each sweep has."""

    def __init__(self, gpu: str, profile: Profiling) -> None:
        super().__init__(device="gpu", gpu=gpu, profile=profile)
        self.screened: list[int] = []
        self.start()  # as a run that makes its own evaluator does

    def screen(self, task: KernelTask, candidates: Sequence[Candidate]) -> tuple[Trial, ...]:
        self.screened.append(len(candidates))
        return super().screen(task, candidates)

    def expect_no_finalist(self) -> None:
        """Make no judge for a next finalist ahead: it would import beside what is measured next."""
        self._second.close()
        self._second = SecondJudge(self._settings)


def run_times(
    references: Sequence[Path],
    out: Path | None = None,
    *,
    precision: Precision = "tf32",
    profile: bool = False,
    kernelbench: Path | None = None,
    warm: int = 2,
    seconds: float = math.inf,
    keep: bool = False,
    before: Path | None = None,
    gpus: Sequence[str] | None = None,
    make: Callable[[str, Profiling], Any] = Watched,
    on_row: Callable[[TimesRow], None] | None = None,
    **options: Any,
) -> TimesResults:
    """Time runs and evaluations.

    Args:
        references: files in KernelBench's form, dealt over the GPUs in order.
        out: results file, rewritten after every reference and every answer of KernelBench.
        precision: the policy.
        profile: let the runs profile their finalists, and time an evaluation with its profile.
        kernelbench: a checkout of KernelBench, which is given the right kernels; None for none.
        warm: KernelBench's calls of each kernel beyond the first.
        seconds: begin no further reference, and no further kernel of KernelBench, after this [s].
        keep: keep the rows that `out` has, but those that failed, and measure what is missing.
        before: earlier results of this command, to compare with.
        gpus: UUIDs of the GPUs; None for all that there are.
        make: makes an evaluator on a GPU.
        on_row: called with each row as it comes, and again with KernelBench's answer.
        **options: further ones of `optimize`.

    Raises:
        BadInput: if there is no GPU, or an earlier file does not fit.
    """
    gpus = visible_gpus() if gpus is None else gpus
    if not gpus:
        raise BadInput("there is no GPU here, and times are those of a GPU")
    results = TimesResults(
        terms=current_provenance(environment()), precision=precision, asked=len(references), profile=profile
    )
    if keep and out is not None:
        results = read_earlier(
            out, results, {"terms": {"evaluator", "environment"}, "precision": True, "profile": True}
        )
    results = results.model_copy(update={"asked": len(references), "gpus": len(gpus)})
    book = Book(results if before is None else compared(results, before), out, on_row)
    end, done = time.monotonic() + seconds, {row.problem for row in results.rows if not row.failed}

    def run_one(reference: Path, gpu: str) -> None:
        if time.monotonic() < end and name_of(reference) not in done:
            book.enter(time_one(reference, gpu, precision, profile, make, **options))

    deal(references, gpus, run_one)
    if kernelbench is not None:
        checkout, by_name = kernelbench, {name_of(reference): reference for reference in references}
        left = [row for row in book.results.rows if row.kernel and row.kernelbench is None and row.problem in by_name]

        def judge_share(rows: Sequence[TimesRow], gpu: str) -> None:
            kernels = [(read_source(by_name[row.problem], "reference"), row.kernel) for row in rows]
            with closing(judge_in_turn(kernels, checkout, precision, warm=warm, gpu=gpu, end=end)) as costs:
                for row, cost in zip(rows, costs, strict=False):
                    book.enter(row.model_copy(update={"kernelbench": cost}))

        deal([share for n in range(len(gpus)) if (share := left[n :: len(gpus)])], gpus, judge_share)
    return book.results


class Book:
    """The results so far, written whenever a row is entered.

    Args:
        results: what there is already.
        out: results file.
        on_row: called with each row that is entered.
    """

    def __init__(self, results: TimesResults, out: Path | None, on_row: Callable[[TimesRow], None] | None) -> None:
        self.results = results
        self._out, self._on_row, self._lock = out, on_row, threading.Lock()

    def enter(self, row: TimesRow) -> None:
        """Add a row, in place of the one that its problem had."""
        with self._lock:
            others = [other for other in self.results.rows if other.problem != row.problem]
            self.results = self.results.model_copy(update={"rows": (*others, row)})
            if self._out is not None:
                write_results(self._out, self.results, times_page(self.results), summary=summary(self.results))
        if self._on_row is not None:
            self._on_row(row)


def deal(jobs: Sequence[Job], gpus: Sequence[str], work: Callable[[Job, str], None]) -> None:
    """Do each job, in order, on the GPU that is free next; one at a time on each."""
    free: queue.Queue[str] = queue.Queue()
    for gpu in gpus:
        free.put(gpu)

    def one(job: Job) -> None:
        gpu = free.get()
        try:
            work(job, gpu)
        finally:
            free.put(gpu)

    with ThreadPoolExecutor(len(gpus)) as pool:
        list(pool.map(one, jobs))


def compared(results: TimesResults, before: Path) -> TimesResults:
    """The results with the figures of earlier ones. Raises `BadInput` if these cannot be read."""
    try:
        earlier = read_results(json.loads(before.read_text(encoding="utf-8")), TimesResults)
    except (OSError, ValueError) as error:
        raise BadInput(f"{before}: no results of this command: {str(error).splitlines()[0]}") from error
    figures = {row.problem: figures_of(row) for row in earlier.rows}
    return results.model_copy(update={"before": earlier.terms.line, "figures_before": figures})


def time_one(
    reference: Path,
    gpu: str,
    precision: Precision,
    profile: bool,
    make: Callable[[str, Profiling], Any] = Watched,
    **options: Any,
) -> TimesRow:
    """Time one problem on one GPU. What fails is told in the row, beside what was measured before."""
    found: dict[str, Any] = {"problem": name_of(reference)}
    calls: list[SingleCall] = []
    with peak_of(gpu) as peak:
        try:
            with make(gpu, "finalists" if profile else False) as evaluator:
                told = _run(reference, evaluator, found, precision=precision, **options)
                if told is not None:
                    _judge_again(evaluator, *told, calls)
            if told is not None and profile:
                with make(gpu, True) as profiling:
                    _judge_with_profile(profiling, *told, calls)
        except Exception as error:  # noqa: BLE001 - the other references are timed all the same
            found["failed"] = f"{type(error).__name__}: {error}"
    return TimesRow(**found, calls=tuple(calls), peak_bytes=peak[0] or None)


def _run(reference: Path, evaluator: Any, found: dict[str, Any], **options: Any) -> tuple[KernelTask, Candidate] | None:
    """Make a whole run, and note it; return its task and its first right kernel, None where there is none."""
    folders: list[Path] = []
    with tempfile.TemporaryDirectory() as runs:
        try:
            begun = time.monotonic()
            run = optimize(reference, evaluator=evaluator, runs_dir=runs, on_start=folders.append, **options)
            found["seconds"] = time.monotonic() - begun
        finally:
            lines = [line for folder in folders if folder.exists() for line in read_lines(folder)]
            found["ledger"] = tuple(line for line in lines if isinstance(line, CallEntry))
            found["screened"] = tuple(evaluator.screened)
    timing = run.evaluation.timing if run.accepted and run.evaluation is not None else None
    found |= {"status": run.status, "ratio": timing.ratio if timing is not None else None}
    right = next((a.candidate for a in run.attempts if a.evaluation.usable), None)
    if right is None:
        return None
    found["kernel"] = right.source
    return run.state["task"], right


def _judge_again(evaluator: Any, task: KernelTask, right: Candidate, calls: list[SingleCall]) -> None:
    """Judge a right kernel twice more, and then the same kernel made wrong."""
    evaluator.expect_no_finalist()
    again: tuple[What, ...] = ("again", "warm")
    for what in again:
        calls.append(_judged(what, evaluator, task, right))
    for source in itertools.islice(wrong_kernels(right.source), MOST_WRONG):
        wrong = right.model_copy(update={"source": source, "author": "times", "parent": right.id})
        calls.append(_judged("wrong", evaluator, task, wrong))
        if calls[-1].status not in USABLE:
            return


def _judge_with_profile(evaluator: Any, task: KernelTask, right: Candidate, calls: list[SingleCall]) -> None:
    """Judge a right kernel with its profile, by an evaluator that has the reference measured."""
    begun = time.monotonic()
    baseline = evaluator.baseline(task)
    seconds = time.monotonic() - begun
    calls.append(SingleCall(what="profiling_baseline", seconds=seconds, parts=baseline.spent.seconds))
    calls.append(_judged("profiled", evaluator, task, right, stage="memory_optimization"))


def _judged(what: What, evaluator: Any, task: KernelTask, candidate: Candidate, **options: Any) -> SingleCall:
    """Judge a kernel, and note it."""
    begun = time.monotonic()
    evaluation: Evaluation = evaluator.evaluate(task, candidate, **options)
    return SingleCall(
        what=what,
        seconds=time.monotonic() - begun,
        status=evaluation.status,
        reason=evaluation.reason,
        parts=evaluation.spent.seconds,
        profile=evaluation.profile.source,
    )
