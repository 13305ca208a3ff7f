"""Evaluators on a Ray cluster. Ray places, restarts and repeats calls; the pool only finds a free evaluator."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

from egg_graph.evaluator.local import LocalEvaluator
from egg_graph.evaluator.pool import Pool
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

REPEATS = 2
"""Times that Ray repeats a call whose actor died."""


class RayPool(Pool):
    """A pool of Ray actors, each holding a `LocalEvaluator`.

    If an actor dies during a call, Ray restarts it and repeats the call. The cluster's machines need egg-graph
    installed. The pool starts or joins a cluster, unless this process is connected to one already.

    Args:
        address: the cluster's address, as `ray.init` takes it; None for a running cluster, or a new one here.
        workers: number of actors.
        gpus_per_worker: 1 to measure, each actor on the GPU that Ray gives it; 0 to judge without a GPU.
        cpus_per_worker: processor cores that Ray reserves for each actor.
        **settings: as `LocalEvaluator` takes them, `device` and `gpu` apart.

    Raises:
        BadInput: if Ray is not installed, or an option makes no sense.
        InfrastructureError: if the cluster cannot be reached.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        workers: int,
        gpus_per_worker: Literal[0, 1] = 0,
        cpus_per_worker: float = 1,
        **settings: Any,
    ) -> None:
        if workers < 1:
            raise BadInput(f"workers: {workers} is too few; give 1 or more")
        if gpus_per_worker not in (0, 1):
            raise BadInput(f"gpus_per_worker: {gpus_per_worker!r} is not 0 or 1: one evaluator measures on one GPU")
        ray = _ray()
        self._ours = not ray.is_initialized()
        if self._ours:
            try:
                ray.init(address=address, log_to_driver=False, include_dashboard=False if address is None else None)
            except (ConnectionError, RuntimeError) as error:
                raise InfrastructureError(f"no Ray cluster at {address or 'this machine'}: {error}") from error
        actor = ray.remote(
            num_cpus=cpus_per_worker, num_gpus=gpus_per_worker, max_restarts=-1, max_task_retries=REPEATS
        )(_Actor)
        place = {"device": "gpu" if gpus_per_worker else "none"}
        super().__init__([partial(_Remote, actor, {**settings, **place})] * workers)

    def close(self) -> None:
        """End the actors, and leave the cluster if this pool started or joined it."""
        super().close()
        if self._ours:
            _ray().shutdown()


class _Actor:
    """A `LocalEvaluator` in a Ray worker process."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.evaluator = LocalEvaluator(**settings)

    def ask(self, method: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        return getattr(self.evaluator, method)(*arguments, **options)

    def close(self) -> None:
        self.evaluator.close()


class _Remote:
    """One actor, called as a `PooledEvaluator`."""

    def __init__(self, actor: Any, settings: dict[str, Any]) -> None:
        self.ray = _ray()
        self.actor = actor.remote(settings)

    def baseline(self, task: KernelTask, *, tuned: bool = False) -> Baseline:
        answer: Baseline = self._ask("baseline", task, **({"tuned": True} if tuned else {}))
        return answer

    def evaluate(
        self, task: KernelTask, candidate: Candidate, *, stage: StageName | None = None, finalist: bool = False
    ) -> Evaluation:
        answer: Evaluation = self._ask("evaluate", task, candidate, stage=stage, finalist=finalist)
        return answer

    def profile(
        self, task: KernelTask, candidate: Candidate, evaluation: Evaluation, *, stage: StageName | None = None
    ) -> Profile:
        answer: Profile = self._ask("profile", task, candidate, evaluation, stage=stage)
        return answer

    def screen(self, task: KernelTask, candidates: Sequence[Candidate]) -> tuple[Trial, ...]:
        answer: tuple[Trial, ...] = self._ask("screen", task, tuple(candidates))
        return answer

    def environment(self) -> Environment:
        answer: Environment = self._ask("environment")
        return answer

    def close(self) -> None:
        """End the actor. Its judge notices that its owner is gone, and ends with everything it started."""
        self.ray.kill(self.actor)

    def _ask(self, method: str, *arguments: Any, **options: Any) -> Any:
        try:
            return self.ray.get(self.actor.ask.remote(method, arguments, options))
        except self.ray.exceptions.RayTaskError as error:
            raise (error.cause if isinstance(error.cause, Exception) else error) from None
        except self.ray.exceptions.RayError as error:
            raise InfrastructureError(f"the Ray actor was lost: {' '.join(str(error).split())[:300]}") from error


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise BadInput('RayPool needs Ray: pip install "egg-graph[ray]"') from error
    return ray
