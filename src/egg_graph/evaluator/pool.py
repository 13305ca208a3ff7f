"""Evaluations side by side: several evaluators behind one, which sends each call to a free one."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, Protocol, Self, TypeVar

from egg_graph.evaluator.cancellation import AsynchronousTwins
from egg_graph.evaluator.device.detect import resolve_gpu, visible_gpus
from egg_graph.evaluator.local import LocalEvaluator
from egg_graph.evaluator.spending import spending_on
from egg_graph.schema import (
    BadInput,
    Baseline,
    Candidate,
    Environment,
    Evaluation,
    InfrastructureError,
    KernelTask,
    Profile,
    StageName,
    Trial,
)

Answer = TypeVar("Answer")


class PooledEvaluator(Protocol):
    """An `Evaluator` that can be closed; a pool consists of these."""

    def baseline(self, task: KernelTask, *, tuned: bool = False) -> Baseline: ...

    def evaluate(
        self, task: KernelTask, candidate: Candidate, *, stage: StageName | None = None, finalist: bool = False
    ) -> Evaluation: ...

    def profile(
        self, task: KernelTask, candidate: Candidate, evaluation: Evaluation, *, stage: StageName | None = None
    ) -> Profile: ...

    def screen(self, task: KernelTask, candidates: Sequence[Candidate]) -> tuple[Trial, ...]: ...

    def environment(self) -> Environment: ...

    def close(self) -> None: ...


class Pool(AsynchronousTwins):
    """Sends each call to a free evaluator; satisfies the `Evaluator` protocol and is safe for concurrent calls.

    If an evaluator is lost during a call, it is replaced and the call repeated once.

    Args:
        makers: one function per evaluator; called again to replace it.
    """

    measures_tuned = True
    """`baseline` takes `tuned=True`."""

    def __init__(self, makers: Sequence[Callable[[], PooledEvaluator]]) -> None:
        self.workers = len(makers)
        self._free: queue.LifoQueue[tuple[Callable[[], PooledEvaluator], PooledEvaluator]] = queue.LifoQueue()
        for make in reversed(makers):
            self._free.put((make, make()))  # last in, first out: calls prefer a warm evaluator
        self._threads = ThreadPoolExecutor(self.workers, thread_name_prefix="egg-graph-pool")
        self._closing = threading.Lock()
        self._closed = False

    def baseline(self, task: KernelTask, *, tuned: bool = False) -> Baseline:
        """See `LocalEvaluator.baseline`. Each evaluator measures its own baseline at its first call for a task."""
        asked = {"tuned": True} if tuned else {}
        return self._call(lambda evaluator: evaluator.baseline(task, **asked))

    def evaluate(
        self, task: KernelTask, candidate: Candidate, *, stage: StageName | None = None, finalist: bool = False
    ) -> Evaluation:
        """See `Evaluator.evaluate`."""
        return self._call(lambda evaluator: evaluator.evaluate(task, candidate, stage=stage, finalist=finalist))

    def profile(
        self, task: KernelTask, candidate: Candidate, evaluation: Evaluation, *, stage: StageName | None = None
    ) -> Profile:
        """See `LocalEvaluator.profile`."""
        return self._call(lambda evaluator: evaluator.profile(task, candidate, evaluation, stage=stage))

    def screen(self, task: KernelTask, candidates: Sequence[Candidate]) -> tuple[Trial, ...]:
        """See `Evaluator.screen`. One evaluator takes the whole sweep, because only times of one GPU compare."""
        return self._call(lambda evaluator: evaluator.screen(task, candidates))

    def environment(self) -> Environment:
        """Describe the machine on which one of the evaluators judges."""
        return self._call(lambda evaluator: evaluator.environment())

    def evaluate_many(
        self,
        task: KernelTask,
        candidates: Sequence[Candidate],
        *,
        stage: StageName | None = None,
        finalist: bool = False,
    ) -> tuple[Evaluation, ...]:
        """Evaluate candidates side by side: one Evaluation each, in their order.

        If the machine keeps failing for one candidate, that one gets `infra_error`; the others keep their verdicts.

        Raises:
            BadInput: if the reference is wrong.
        """

        def one(candidate: Candidate) -> Evaluation:
            try:
                return self.evaluate(task, candidate, stage=stage, finalist=finalist)
            except InfrastructureError as error:
                return Evaluation(candidate=candidate.id, task=task.digest, status="infra_error", reason=str(error))

        return tuple(self._threads.map(one, candidates))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Wait for running calls, then close all evaluators. A closed pool takes no more calls."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
            self._threads.shutdown()
            for _ in range(self.workers):
                self._free.get()[1].close()

    def _call(self, ask: Callable[[PooledEvaluator], Answer]) -> Answer:
        if self._closed:
            raise BadInput("this pool is closed: make another one")
        with spending_on("waiting"):
            make, evaluator = self._free.get()
        try:
            try:
                return ask(evaluator)
            except InfrastructureError:
                evaluator.close()
                evaluator = make()
                return ask(evaluator)
        finally:
            self._free.put((make, evaluator))


class EvaluatorPool(Pool):
    """A pool of `LocalEvaluator`s on this machine, each with a judge of its own.

    Evaluators on one GPU compile and compare side by side and measure in turns (`GpuAccess`), so that nothing disturbs
    a measurement.

    Args:
        gpus: `"all"`, or GPUs by index or UUID; None to judge without a GPU.
        workers: number of evaluators without a GPU; half of the cores if None.
        workers_per_gpu: number of evaluators per GPU.
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
