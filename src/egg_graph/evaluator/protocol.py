"""The Evaluator as the graph knows it."""

from collections.abc import Awaitable, Sequence
from typing import Literal, Protocol, runtime_checkable

from egg_graph.schema import Baseline, Candidate, Evaluation, KernelTask, StageName, Trial

Profiling = bool | Literal["finalists"]
"""When an evaluator profiles: at every kernel that is faster than those before it, never, or finalists alone."""


@runtime_checkable
class Evaluator(Protocol):
    """Judges candidates. A failing kernel is an `Evaluation`; only infrastructure raises (`InfrastructureError`).

    An evaluator may say what it is doing (`egg_graph.evaluator.report_progress`); none has to. One that judges on
    another machine says so by an attribute `judges_elsewhere = True`, and by `environment()` which machine that is: the
    target `auto` then means its GPU. It may raise `AnswerPending`, which ends the run where it can be resumed. One that
    measures tuned PyTorch says so by `measures_tuned = True`; its `baseline` then takes `tuned=True`. One that
    measures may have a method `profile(task, candidate, evaluation, *, stage)`, as `LocalEvaluator` has: each stage
    then begins with its own metrics of the kernel that it is handed. One that remembers which configuration of a kernel
    won before may have a method `winner_before(task, baseline, candidate)`, which returns it, or None: a sweep tries it
    second.

    A method may be an `async def`. One that is not runs in a thread under `ainvoke` and `astream`, unless the evaluator
    has an asynchronous twin of it (`abaseline`, `aevaluate`, `ascreen`). When the run is cancelled, a coroutine is
    cancelled, and a thread is left to end by itself.
    """

    def baseline(self, task: KernelTask) -> Baseline | Awaitable[Baseline]:
        """Run the reference and, on a GPU, measure it.

        Raises:
            BadInput: if the reference cannot be loaded or run; one line that says where and why.
            InfrastructureError: if the machine failed.
        """
        ...

    def evaluate(
        self, task: KernelTask, candidate: Candidate, *, stage: StageName | None = None, finalist: bool = False
    ) -> Evaluation | Awaitable[Evaluation]:
        """Judge one candidate on the whole ladder.

        Args:
            task: the reference, and what a replacement must satisfy.
            candidate: the kernel that may replace it.
            stage: selects the profiling metrics.
            finalist: also run the slow rungs, for a kernel that is about to be handed over: memory and race checks by
                compute-sanitizer, repeats, and a second measurement in fresh processes.

        Raises:
            InfrastructureError: if the machine failed; never because of the candidate.
        """
        ...

    def screen(
        self, task: KernelTask, candidates: Sequence[Candidate]
    ) -> tuple[Trial, ...] | Awaitable[tuple[Trial, ...]]:
        """Rank configurations of one kernel by cheaper evidence: one Trial per candidate, in their order.

        On a GPU, it compiles in parallel, prunes what cannot be fast, gives each other one correctness check and a
        short timing, and times the better half again. Without a GPU, it compiles ahead of time and launches at full
        shape without memory. The first candidate is the kernel's own configuration. The winner still has to pass
        `evaluate`.

        Raises:
            InfrastructureError: if the machine failed; never because of the candidate.
        """
        ...
