"""Count evaluations per minute with one worker and with several, and check that a worker's death loses none."""

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from egg_graph.bench.provenance import Provenance, current_provenance
from egg_graph.bench.writing import markdown_table, write_results
from egg_graph.context import Device
from egg_graph.schema import Candidate, Evaluation, KernelTask, Value
from tests.lab.processes import judges


class Pool(Protocol):
    """A pool of evaluators: `EvaluatorPool`, `RayPool`."""

    def evaluate_many(self, task: KernelTask, candidates: Sequence[Candidate]) -> tuple[Evaluation, ...]: ...

    def close(self) -> None: ...


class Pace(Value):
    """The work of one pool."""

    workers: int
    kind: str
    """`processes` or `ray`."""
    count: int
    seconds: float
    warm_up_seconds: float
    """Start of the workers and one evaluation each, before the measurement."""
    statuses: dict[str, int]
    lost: int
    """Evaluations that did not come back, or came back as the machine's fault."""
    killed: str = ""
    """What was killed in the middle of the work, or why nothing could be; empty if nothing was to be killed."""

    @property
    def per_minute(self) -> float:
        """Evaluations per minute."""
        return 60.0 * self.count / self.seconds


class ThroughputResults(Value):
    """The work of several pools on one machine."""

    terms: Provenance
    reference: str
    candidates: tuple[str, ...]
    precision: str
    device: str
    cores: int
    paces: tuple[Pace, ...] = ()


def run_throughput(
    task: KernelTask,
    candidates: Sequence[Candidate],
    names: Sequence[str],
    out: Path | None = None,
    *,
    workers: Sequence[int] = (2,),
    ray: bool = False,
    count: int = 20,
    device: Device = "auto",
    kill_one: bool = False,
) -> ThroughputResults:
    """Evaluate `count` times with one worker and with several.

    Args:
        task: the task that the kernels are judged on.
        candidates: kernels, taken in turn.
        names: names of their files.
        out: results file.
        workers: number of workers in each further pool; they are assigned in turns to the GPUs there are.
        ray: whether the further pools' workers are Ray actors.
        count: evaluations by each pool, beside one to warm each worker up.
        device: where to judge.
        kill_one: whether to kill a judge process of the last pool in the middle of the work.
    """
    from egg_graph.evaluator import environment

    here = environment()
    gpu = device != "none" and here.gpu is not None
    results = ThroughputResults(
        terms=current_provenance(here),
        reference=task.name,
        candidates=tuple(names),
        precision=task.precision,
        device="gpu" if gpu else "none",
        cores=len(os.sched_getaffinity(0)),
    )
    row = [candidates[number % len(candidates)] for number in range(count)]
    for size, by_ray in ((1, False), *((size, ray) for size in workers)):
        pool = _open_pool(size, by_ray, gpu)
        try:
            pace = _measure(pool, task, row, size, by_ray, kill_one and size == workers[-1])
        finally:
            pool.close()
        results = results.model_copy(update={"paces": (*results.paces, pace)})
        if out is not None:
            write_results(out, results, throughput_page(results))
    return results


def throughput_page(results: ThroughputResults) -> str:
    """The work of all pools as a Markdown page."""
    rows = [
        (
            *(str(pace.workers), pace.kind, str(pace.count), f"{pace.seconds:.1f}", f"{pace.per_minute:.1f}"),
            *(f"{pace.warm_up_seconds:.1f}", ", ".join(f"{k} {v}" for k, v in pace.statuses.items())),
            *(str(pace.lost), pace.killed or "-"),
        )
        for pace in results.paces
    ]
    header = ("workers", "kind", "evaluations", "s", "a minute", "warm-up [s]", "verdicts", "lost", "killed")
    lines = [f"# throughput on {results.reference}", "", results.terms.line]
    lines += [f"{results.cores} cores, device {results.device}; kernels: {', '.join(results.candidates)}.", ""]
    lines += markdown_table(header, rows)
    one = results.paces[0]
    lines += [
        f"\n{several.workers} workers do {several.per_minute / one.per_minute:.2f} times the work of one."
        for several in results.paces[1:]
    ]
    return "\n".join(lines) + "\n"


def _open_pool(workers: int, ray: bool, gpu: bool) -> Pool:
    if ray:
        from egg_graph.evaluator.ray_pool import RayPool

        return RayPool(workers=workers, gpus_per_worker=1 if gpu else 0)
    from egg_graph.evaluator.pool import EvaluatorPool

    if not gpu:
        return EvaluatorPool(workers=workers)
    from egg_graph.evaluator.device.gpus import visible_gpus

    if workers == 1:
        return EvaluatorPool([0])
    return EvaluatorPool("all", workers_per_gpu=max(1, workers // len(visible_gpus())))


def _measure(pool: Pool, task: KernelTask, row: Sequence[Candidate], workers: int, ray: bool, kill: bool) -> Pace:
    begun = time.monotonic()
    pool.evaluate_many(task, [row[0]] * workers)
    warm_up = time.monotonic() - begun
    begun = time.monotonic()
    pool.evaluate_many(task, row[:1])
    killer = _Killer(delay=0.5 * (time.monotonic() - begun)) if kill else None
    begun = time.monotonic()
    if killer is not None:
        killer.start()
    evaluations = pool.evaluate_many(task, row)
    seconds = time.monotonic() - begun
    statuses: Counter[str] = Counter(evaluation.status for evaluation in evaluations)
    if killer is not None:
        killer.join()
    return Pace(
        workers=workers,
        kind="ray" if ray else "processes",
        count=len(row),
        seconds=seconds,
        warm_up_seconds=warm_up,
        statuses=statuses,
        lost=len(row) - len(evaluations) + statuses["infra_error"],
        killed=killer.report if killer is not None else "",
    )


class _Killer(threading.Thread):
    """Kills one of our judge processes after a delay: half of what one evaluation takes [s]."""

    def __init__(self, delay: float) -> None:
        super().__init__(daemon=True)
        self.delay = delay
        self.report = "nothing: the work was done before"

    def run(self) -> None:
        time.sleep(self.delay)
        found = judges()
        if not found:
            self.report = "nothing: no judge process among our descendants"
            return
        os.kill(found[0].pid, signal.SIGKILL)
        self.report = f"one judge of {len(found)}, {self.delay:.1f} s after the start"
