"""The Evaluator as the graph knows it."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from egg_graph.schema import Baseline, Candidate, Evaluation, KernelTask, StageName, Trial


@runtime_checkable
class Evaluator(Protocol):
    """Judges candidates. A failing kernel is an `Evaluation`; only infrastructure raises (`InfrastructureError`)."""

    def baseline(self, task: KernelTask) -> Baseline:
        """Run and measure the reference itself.

        Raises:
            BadInput: if the reference cannot be loaded or run; one line that says where and why.
            InfrastructureError: if the machine failed.
        """
        ...

    def evaluate(
        self, task: KernelTask, candidate: Candidate, *, stage: StageName | None = None, finalist: bool = False
    ) -> Evaluation:
        """EvaluationBuilder the whole ladder with one candidate.

        Args:
            task: reference and terms.
            candidate: what may replace it.
            stage: chooses the profiling metrics.
            finalist: also the slow rungs, meant for a kernel that is about to be handed over: memory and race checks
                by compute-sanitizer, repeats, and a second measurement in fresh processes.

        Raises:
            InfrastructureError: if the machine failed; never because of the candidate.
        """
        ...

    def screen(self, task: KernelTask, candidates: Sequence[Candidate]) -> tuple[Trial, ...]:
        """Rank configurations of one kernel by cheaper evidence: one Trial per candidate, in their order.

        On a GPU: parallel compilation, one correctness check and a short timing each. Without: ahead-of-time compile
        and full-shape fake launches. The winner still has to pass `evaluate`.

        Raises:
            InfrastructureError: if the machine failed; never because of the candidate.
        """
        ...
