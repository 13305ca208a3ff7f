"""Many evaluations side by side: several evaluators behind one, each call sent to one that is free."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Literal, Protocol, Self, TypeVar

from egg_graph.evaluator.device.gpus import resolve_gpu, visible_gpus
from egg_graph.evaluator.local import LocalEvaluator
from egg_graph.schema import (
    BadInput,
    Baseline,
    Candidate,
    Environment,
    Evaluation,
    InfrastructureError,
    KernelTask,
    StageName,
    Trial,
)

Answer = TypeVar("Answer")


class Worker(Protocol):
    """An Evaluator with a life cycle: what a pool is made of."""

    def baseline(self, task: KernelTask) -> Baseline: ...

    def evaluate(
        self, task: KernelTask, candidate: Candidate, *, stage: StageName | None = None, finalist: bool = False
    ) -> Evaluation: ...

    def screen(self, task: KernelTask, candidates: Sequence[Candidate]) -> tuple[Trial, ...]: ...

    def environment(self) -> Environment: ...

    def close(self) -> None: ...


class Pool:
    """Sends each call to a free worker; satisfies the `Evaluator` protocol and is safe for concurrent calls.

    A worker that is lost in the middle of a call is replaced, and the call made once more: nothing is lost.

    Args:
        makers: one for each worker; called again to replace it.
    """

    def __init__(self, makers: Sequence[Callable[[], Worker]]) -> None:
        self.workers = len(makers)
        self._free: queue.LifoQueue[tuple[Callable[[], Worker], Worker]] = queue.LifoQueue()
        for make in reversed(makers):
            self._free.put((make, make()))  # the last in is the first out: a warm one, where one is
        self._threads = ThreadPoolExecutor(self.workers, thread_name_prefix="egg-graph-pool")
        self._closing = threading.Lock()
        self._closed = False

    # ----------------------------------------------------------------------------------------- the protocol

    def baseline(self, task: KernelTask) -> Baseline:
        """See `Evaluator.baseline`. Each worker establishes its own at its first call of a task."""
        return self._call(lambda worker: worker.baseline(task))

    def evaluate(
        self, task: KernelTask, candidate: Candidate, *, stage: StageName | None = None, finalist: bool = False
    ) -> Evaluation:
        """See `Evaluator.evaluate`."""
        return self._call(lambda worker: worker.evaluate(task, candidate, stage=stage, finalist=finalist))

    def screen(self, task: KernelTask, candidates: Sequence[Candidate]) -> tuple[Trial, ...]:
        """See `Evaluator.screen`. A sweep goes to one worker: its times are compared, so one GPU takes them."""
        return self._call(lambda worker: worker.screen(task, candidates))

    def environment(self) -> Environment:
        """Where one of the workers gathers its evidence."""
        return self._call(lambda worker: worker.environment())

    def evaluate_many(
        self,
        task: KernelTask,
        candidates: Sequence[Candidate],
        *,
        stage: StageName | None = None,
        finalist: bool = False,
    ) -> tuple[Evaluation, ...]:
        """Evaluate all candidates, as many at a time as there are workers: one Evaluation each, in their order.

        A fault of the machine that persists costs one candidate its verdict (`infra_error`), not the others theirs.

        Raises:
            BadInput: if the reference is wrong.
        """

        def one(candidate: Candidate) -> Evaluation:
            try:
                return self.evaluate(task, candidate, stage=stage, finalist=finalist)
            except InfrastructureError as error:
                return Evaluation(candidate=candidate.id, task=task.digest, status="infra_error", reason=str(error))

        return tuple(self._threads.map(one, candidates))

    # ------------------------------------------------------------------------------------------- life cycle

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all workers, when the calls under way are done. A closed pool takes no more calls."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
            self._threads.shutdown()
            for _ in range(self.workers):
                self._free.get()[1].close()

    def _call(self, ask: Callable[[Worker], Answer]) -> Answer:
        if self._closed:
            raise BadInput("this pool is closed: make another one")
        make, worker = self._free.get()
        try:
            try:
                return ask(worker)
            except InfrastructureError:
                worker.close()
                worker = make()
                return ask(worker)
        finally:
            self._free.put((make, worker))


class EvaluatorPool(Pool):
    """Evaluators on this machine, each with judge and workers of its own.

    Workers of one GPU compile and compare side by side, and measure in turns (`GpuAccess`), so that nothing disturbs
    a measurement.

    Args:
        gpus: `"all"`, or those to use, by index or UUID; None to judge without a GPU.
        workers: how many without a GPU; half of the cores if None.
        workers_per_gpu: how many for each GPU.
        **settings: as `LocalEvaluator` takes them, `device` and `gpu` apart.

    Raises:
        BadInput: if an option makes no sense, or there is no such GPU.
    """

    def __init__(
        self,
        gpus: Literal["all"] | Sequence[int | str] | None = None,
        *,
        workers: int | None = None,
        workers_per_gpu: int = 1,
        **settings: Any,
    ) -> None:
        if gpus is None:
            places: list[dict[str, Any]] = [{"device": "none"}] * _count("workers", workers)
        elif workers is not None:
            raise BadInput("workers: is for a pool without GPUs; with gpus= give workers_per_gpu=")
        else:
            places = [
                {"device": "gpu", "gpu": uuid}
                for _ in range(_count("workers_per_gpu", workers_per_gpu))
                for uuid in _chosen(gpus)
            ]
        super().__init__([lambda place=place: LocalEvaluator(**{**settings, **place}) for place in places])  # type: ignore[misc]


def _chosen(gpus: Literal["all"] | Sequence[int | str]) -> tuple[str, ...]:
    chosen = visible_gpus() if gpus == "all" else tuple(resolve_gpu(gpu) for gpu in gpus)
    if not chosen:
        raise BadInput("gpus: there is no GPU here to make a pool of; leave it out to judge without one")
    return chosen


def _count(option: str, given: int | None) -> int:
    count = max(1, (os.cpu_count() or 2) // 2) if given is None else given
    if count < 1:
        raise BadInput(f"{option}: {count} is too few; give 1 or more")
    return count
