"""What the evaluators elsewhere have in common: each call of the protocol is one question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from egg_graph.calls import finish
from egg_graph.evaluator.remote.questions import Answer, Question
from egg_graph.schema import Baseline, Candidate, Environment, Evaluation, KernelTask, Profile, StageName, Trial


class AskingEvaluator:
    """Asks another machine; satisfies the `Evaluator` protocol. Calls may come from any thread and any event loop.

    Args:
        label: evaluators with another label get measurements of their own, where others share one answer.
    """

    judges_elsewhere = True
    """The GPU of `environment()` is the one to write for, not this machine's."""
    measures_tuned = True
    """`baseline` takes `tuned=True`."""

    def __init__(self, label: str) -> None:
        self._label = label

    async def ask(self, question: Question) -> Answer:
        """Ask, and wait for the answer. If it is cancelled, the question is taken back."""
        raise NotImplementedError

    def baseline(self, task: KernelTask, *, tuned: bool = False) -> Baseline:
        """See `LocalEvaluator.baseline`."""
        return finish(self.abaseline(task, tuned=tuned))

    def evaluate(
        self, task: KernelTask, candidate: Candidate, *, stage: StageName | None = None, finalist: bool = False
    ) -> Evaluation:
        """See `Evaluator.evaluate`."""
        return finish(self.aevaluate(task, candidate, stage=stage, finalist=finalist))

    def profile(
        self, task: KernelTask, candidate: Candidate, evaluation: Evaluation, *, stage: StageName | None = None
    ) -> Profile:
        """See `LocalEvaluator.profile`."""
        return finish(self.aprofile(task, candidate, evaluation, stage=stage))

    def screen(self, task: KernelTask, candidates: Sequence[Candidate]) -> tuple[Trial, ...]:
        """See `Evaluator.screen`."""
        return finish(self.ascreen(task, candidates))

    def environment(self) -> Environment:
        """Describe the machine that judges."""
        return finish(self.aenvironment())

    async def abaseline(self, task: KernelTask, *, tuned: bool = False) -> Baseline:
        """`baseline` in an event loop."""
        answer = await self._answered(Question(kind="baseline", task=task, tuned=tuned, label=self._label))
        assert answer.baseline is not None
        return answer.baseline

    async def aevaluate(
        self, task: KernelTask, candidate: Candidate, *, stage: StageName | None = None, finalist: bool = False
    ) -> Evaluation:
        """`evaluate` in an event loop."""
        question = Question(
            kind="evaluate", task=task, candidates=(candidate,), stage=stage, finalist=finalist, label=self._label
        )
        answer = await self._answered(question)
        assert answer.evaluation is not None
        return answer.evaluation

    async def aprofile(
        self, task: KernelTask, candidate: Candidate, evaluation: Evaluation, *, stage: StageName | None = None
    ) -> Profile:
        """`profile` in an event loop."""
        told = evaluation.model_copy(update={"rungs": (), "checks": (), "log": "", "timing": None})
        question = Question(
            kind="profile", task=task, candidates=(candidate,), stage=stage, evaluation=told, label=self._label
        )
        answer = await self._answered(question)
        assert answer.profile is not None
        return answer.profile

    async def ascreen(self, task: KernelTask, candidates: Sequence[Candidate]) -> tuple[Trial, ...]:
        """`screen` in an event loop."""
        question = Question(kind="screen", task=task, candidates=tuple(candidates), label=self._label)
        answer = await self._answered(question)
        assert answer.trials is not None
        return answer.trials

    async def aenvironment(self) -> Environment:
        """`environment` in an event loop."""
        answer = await self._answered(Question(kind="environment", label=self._label))
        assert answer.environment is not None
        return answer.environment

    async def _answered(self, question: Question) -> Answer:
        answer = await self.ask(question)
        answer.check()
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Nothing is held between two calls, so there is nothing to close."""
