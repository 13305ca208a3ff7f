"""Evaluations per minute, with one worker and with several; and whether a worker's death loses anything."""

import os
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol

from egg_graph.bench.trust.processes import judges
from egg_graph.bench.trust.terms import Terms, terms_now
from egg_graph.bench.trust.writing import table, write_results
from egg_graph.schema import Candidate, Evaluation, KernelTask, Value


class Many(Protocol):
    """What evaluates side by side: `EvaluatorPool`, `RayPool`."""

    def evaluate_many(self, task: KernelTask, candidates: Sequence[Candidate]) -> tuple[Evaluation, ...]: ...

    def close(self) -> None: ...


class Pace(Value):
    """One pool's work."""

    workers: int
    kind: str
    """`processes` or `ray`."""
    count: int
    seconds: float
    warm_up_seconds: float
    """Start of the workers and one evaluation each, before the clock."""
    statuses: dict[str, int]
    lost: int
    """Evaluations that did not come back, or came back as the machine's fault."""
    killed: str = ""
    """What was killed in the middle of the work; empty if nothing was to be, a reason if nothing could be."""

    @property
    def per_minute(self) -> float:
        return 60.0 * self.count / self.seconds


class ThroughputResults(Value):
    """Paces on one machine."""

    terms: Terms
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
    device: Literal["auto", "gpu", "none"] = "auto",
    kill_one: bool = False,
) -> ThroughputResults:
    """Evaluate `count` times with one worker and with several.

    Args:
        task: what is to be replaced.
        candidates: kernels, taken in turn.
        names: of their files.
        out: results file.
        workers: how many in each further pool; on GPUs they are dealt to those there are.
        ray: the further pools' workers are Ray actors.
        count: evaluations by each pool, beside one to warm each worker up.
        device: ladder.
        kill_one: kill a judge process of the last pool in the middle of the work.
    """
    from egg_graph.evaluator import environment

    where = environment()
    gpu = device != "none" and where.gpu is not None
    terms = terms_now().model_copy(update={"environment": where})
    results = ThroughputResults(
        terms=terms,
        reference=task.name,
        candidates=tuple(names),
        precision=task.precision,
        device="gpu" if gpu else "none",
        cores=len(os.sched_getaffinity(0)),
    )
    row = [candidates[number % len(candidates)] for number in range(count)]
    for many, by_ray in ((1, False), *((several, ray) for several in workers)):
        pool = _pool(many, by_ray, gpu)
        try:
            pace = _pace(pool, task, row, many, by_ray, kill_one and many == workers[-1])
        finally:
            pool.close()
        results = results.model_copy(update={"paces": (*results.paces, pace)})
        if out is not None:
            write_results(out, results, throughput_page(results))
    return results


def throughput_page(results: ThroughputResults) -> str:
    """The paces as a Markdown page."""
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
    lines += table(header, rows)
    one = results.paces[0]
    lines += [
        f"\n{several.workers} workers do {several.per_minute / one.per_minute:.2f} times the work of one."
        for several in results.paces[1:]
    ]
    return "\n".join(lines) + "\n"


def _pool(workers: int, ray: bool, gpu: bool) -> Many:
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


def _pace(pool: Many, task: KernelTask, row: Sequence[Candidate], workers: int, ray: bool, kill: bool) -> Pace:
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
    statuses: dict[str, int] = {}
    for evaluation in evaluations:
        statuses[evaluation.status] = statuses.get(evaluation.status, 0) + 1
    if killer is not None:
        killer.join()
    return Pace(
        workers=workers,
        kind="ray" if ray else "processes",
        count=len(row),
        seconds=seconds,
        warm_up_seconds=warm_up,
        statuses=statuses,
        lost=len(row) - len(evaluations) + statuses.get("infra_error", 0),
        killed=killer.told if killer is not None else "",
    )


class _Killer(threading.Thread):
    """Kills one judge process of ours after a while: half of what one evaluation takes."""

    def __init__(self, delay: float) -> None:
        super().__init__(daemon=True)
        self.delay = delay
        self.told = "nothing: the work was done before"

    def run(self) -> None:
        time.sleep(self.delay)
        found = judges()
        if not found:
            self.told = "nothing: no judge process among our descendants"
            return
        os.kill(found[0].pid, signal.SIGKILL)
        self.told = f"one judge of {len(found)}, {self.delay:.1f} s after the start"
