"""The evaluator on this machine. It runs in the caller's process and imports neither torch nor triton."""

from __future__ import annotations

import atexit
import json
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal, Self

from egg_graph.evaluator.cancellation import AsynchronousTwins, this_call
from egg_graph.evaluator.client import JudgeClient, JudgeLost, WarmingJudge
from egg_graph.evaluator.device.detect import environment, gpu_present, resolve_gpu
from egg_graph.evaluator.device.lease import PATIENCE
from egg_graph.evaluator.evidence.confirmation import confirmed
from egg_graph.evaluator.gpu.tuned import plan
from egg_graph.evaluator.problem.imports import require_imports
from egg_graph.evaluator.progress import report_progress
from egg_graph.evaluator.protocol import Profiling
from egg_graph.evaluator.second_judge import MeasuredKernels, SecondJudge
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

START_SECONDS = 120.0
"""Seconds for the judge to start."""
WORK_SECONDS = 900.0
"""Seconds for one answer, beside the candidate's own time and the wait for the GPU."""


class LocalEvaluator(AsynchronousTwins):
    """Judges candidates in processes of their own; satisfies the `Evaluator` protocol.

    A judge process holds reference, expected outputs, seeds and verdict. Candidates run in children of other processes
    that hold none of these. The judge starts with the first call and stays warm. If it dies during a call, it is
    replaced and the call repeated once. Calls from several threads are safe and take turns; `EvaluatorPool` runs calls
    side by side. A call that is interrupted (Ctrl-C), or whose asynchronous twin is cancelled, ends the judge; the next
    call starts a new one.

    Args:
        device: `"gpu"` measures on this machine's GPU, `"none"` proves what can be proven without a GPU, `"auto"` uses
            the GPU if PyTorch can.
        timeout: seconds that one run of a candidate may take.
        seed: root of all seeds; None draws a secret one, which an evaluation reveals with its verdict. Whoever writes
            candidates must not see the seed of a judge that goes on judging them. Where none is given, a finalist is
            judged on a seed that no evaluation has revealed.
        profile: collect Nsight Compute metrics of each candidate that is faster than those before it, if `ncu` is on
            the PATH; `"finalists"`: of finalists alone.
        gpu: the GPU, by its index among those that this process may use or by its UUID; None for the first.

    Raises:
        BadInput: if an option makes no sense.
    """

    measures_tuned = True
    """`baseline` takes `tuned=True`."""

    def __init__(
        self,
        *,
        device: Literal["auto", "gpu", "none"] = "auto",
        timeout: float = 60.0,
        seed: int | None = None,
        profile: Profiling = False,
        gpu: int | str | None = None,
    ) -> None:
        if device not in ("auto", "gpu", "none"):
            raise BadInput(f'device: "{device}" is not one of auto, gpu, none')
        if timeout <= 0:
            raise BadInput(f"timeout: {timeout} seconds leave no time to run; give more than 0")
        if gpu is not None and device == "none":
            raise BadInput(f'gpu: {gpu!r} was asked for together with device="none"; give one of the two')
        self.timeout = timeout
        self._patience = 0.0 if device == "none" else PATIENCE
        uuid = None if gpu is None else resolve_gpu(gpu)
        self._settings = {"device": device, "timeout": timeout, "seed": seed, "profile": profile, "gpu": uuid}
        self._lock = threading.Lock()
        self._judge: JudgeClient | None = None
        self._second = SecondJudge(self._settings)
        self._measured = MeasuredKernels()

    @property
    def cache_key(self) -> str:
        """All but the seed that an answer depends on beside task and candidate, for whoever keeps answers."""
        settings = {name: value for name, value in self._settings.items() if name != "seed"}
        return json.dumps([settings, environment().model_dump()], sort_keys=True)

    def baseline(self, task: KernelTask, *, tuned: bool = False) -> Baseline:
        """Run (and, on a GPU, measure) the reference itself. See `Evaluator.baseline`.

        Args:
            task: the reference.
            tuned: also measure PyTorch with its own switches turned, which takes minutes.
        """
        params = {"task": task.model_dump(mode="json"), **({"tuned": True} if tuned else {})}
        seconds = WORK_SECONDS + (plan.ALL_SECONDS + plan.START_SECONDS if tuned else 0.0)
        return Baseline.model_validate(self._call("baseline", params, seconds))

    def evaluate(
        self, task: KernelTask, candidate: Candidate, *, stage: StageName | None = None, finalist: bool = False
    ) -> Evaluation:
        """Judge one candidate on the whole ladder. See `Evaluator.evaluate`."""
        params = {
            "task": task.model_dump(mode="json"),
            "candidate": candidate.model_dump(mode="json"),
            "stage": stage,
            "finalist": finalist,
        }
        seconds = WORK_SECONDS + 8 * self.timeout
        if finalist and self._may_time:
            return self._evaluate_finalist(task, candidate, params, seconds)
        evaluation = Evaluation.model_validate(self._call("evaluate", params, seconds))
        self._measured.add(task, candidate, evaluation)
        if self._second.used:
            self._second.make_ahead(task)
        return evaluation

    def profile(
        self, task: KernelTask, candidate: Candidate, evaluation: Evaluation, *, stage: StageName | None = None
    ) -> Profile:
        """Take a stage's metrics of a kernel that was evaluated before, without judging it again.

        Args:
            task: the reference.
            candidate: the kernel.
            evaluation: its evaluation, which names its kernels.
            stage: selects the metrics; None selects those of all stages.

        Raises:
            InfrastructureError: if the machine failed.
        """
        params = {
            "task": task.model_dump(mode="json"),
            "candidate": candidate.model_dump(mode="json"),
            "stage": stage,
            "resources": [kernel.model_dump(mode="json") for kernel in evaluation.resources],
            "triton_share": evaluation.triton_share,
        }
        return Profile.model_validate(self._call("profile", params, WORK_SECONDS))

    def screen(self, task: KernelTask, candidates: Sequence[Candidate]) -> tuple[Trial, ...]:
        """Rank configurations by cheaper evidence. See `Evaluator.screen`."""
        params = {
            "task": task.model_dump(mode="json"),
            "candidates": [candidate.model_dump(mode="json") for candidate in candidates],
        }
        if self._may_time:
            self._second.make_ahead(task)  # a sweep is a run's, and a run ends with a finalist
        answer = self._call("screen", params, WORK_SECONDS + 2 * self.timeout * max(1, len(candidates)))
        return tuple(Trial.model_validate(trial) for trial in answer)

    def start(self) -> None:
        """Start the judge, unless there is one: it imports in the background, and opens the GPU with the first call."""
        if self._settings["device"] == "gpu" and not gpu_present():
            return  # the first call tells it
        with self._lock:
            if self._judge is None:
                self._judge = JudgeClient(self._settings)

    def environment(self) -> Environment:
        """Describe the machine on which this evaluator judges. Starts the judge."""
        return Environment.model_validate(self._call("environment", {}, START_SECONDS))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End the judges and everything they started. The next call starts a new one."""
        with self._lock:
            self._drop()
            self._second.close()

    def _drop(self) -> None:
        if self._judge is not None:
            self._judge.kill()
            self._judge = None

    def _call(self, method: str, params: Mapping[str, Any], seconds: float) -> Any:
        """Ask the judge; if it is lost, ask a new one once. What a reference needs is looked for before one starts."""
        if "task" in params:
            require_imports(params["task"]["reference"])
        if not self._lock.acquire(blocking=False):
            with spending_on("waiting"):
                self._lock.acquire()
        try:
            return self._ask(method, params, seconds)
        except JudgeLost:
            return self._ask(method, params, seconds)
        finally:
            self._lock.release()

    def _ask(self, method: str, params: Mapping[str, Any], seconds: float) -> Any:
        this_call().check()
        if self._judge is None:
            if self._settings["device"] == "gpu" and not gpu_present():
                raise InfrastructureError('there is no GPU here; take device="none"')
            report_progress("starts the judge")
            self._judge = JudgeClient(self._settings)
        try:
            with this_call().ending_by(self._judge.interrupt):
                return self._judge.ask(method, params, seconds + self._patience)
        except BadInput:
            raise
        except BaseException:  # whatever interrupts it leaves an answer behind, which is none to the next request
            self._drop()
            raise

    @property
    def _may_time(self) -> bool:
        """Whether there is a GPU that kernels may be timed on."""
        return self._settings["device"] != "none" and gpu_present()

    def _evaluate_finalist(
        self, task: KernelTask, candidate: Candidate, params: Mapping[str, Any], seconds: float
    ) -> Evaluation:
        """Judge a finalist in a judge of its own, and hold its time against the first judge's measurement.

        That one is made where this evaluator has not measured the kernel before.
        """
        with self._second.started_for(task) as second:
            known = self._measured.find(task, candidate)
            first = known or Evaluation.model_validate(self._call("evaluate", {**params, "finalist": False}, seconds))
            if not first.usable:
                return first
            if first.timing is None:
                return Evaluation.model_validate(self._call("evaluate", params, seconds))
            report_progress("judges the finalist with a new judge")
            self._call("release", {}, START_SECONDS)
            try:
                answer = _asked_once(second, params, seconds + self._patience)
            except JudgeLost:
                with JudgeClient(self._second.settings) as another:
                    answer = _asked_once(another, params, seconds + self._patience)
            told = confirmed(answer, first)
            return told if known else _with_time_of(first, told)


@cache
def local_evaluator(device: Literal["auto", "gpu", "none"], profile: Profiling) -> LocalEvaluator:
    """The evaluator of this machine. All graphs of the process share it; it is closed when the process ends."""
    evaluator = LocalEvaluator(device=device, profile=profile)
    atexit.register(evaluator.close)
    return evaluator


def _with_time_of(first: Evaluation, told: Evaluation) -> Evaluation:
    """An evaluation that tells the time of the first one, too."""
    return told.model_copy(
        update={"seconds": round(told.seconds + first.seconds, 3), "spent": told.spent + first.spent}
    )


def _asked_once(judge: JudgeClient | WarmingJudge, params: Mapping[str, Any], seconds: float) -> Evaluation:
    with this_call().ending_by(judge.interrupt):
        return Evaluation.model_validate(judge.ask("evaluate", params, seconds))
