"""Explain how the wrong answer of a timed call came about: an earlier answer, stale inputs, or unfinished work."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from egg_graph.evaluator.gpu.timing.session import TimingSession
from egg_graph.evaluator.gpu.timing.timed_answers import AnswerChecker, TimedAnswer
from egg_graph.evaluator.gpu.worker_session import WorkerSession
from egg_graph.evaluator.wire.poison import poison_
from egg_graph.schema import Finding

LATE_SECONDS = 0.03
"""Time after which work that a forward left to a thread or to another stream is done [s]."""
LATE_TRIES = 8
"""Tries to see such work unfinished; by chance it may be done in time."""


@dataclass(frozen=True)
class WrongAnswerExplainer:
    """Makes further calls of a candidate to explain a wrong answer."""

    worker: WorkerSession
    session: TimingSession
    checker: AnswerChecker

    def explain(self, answers: Sequence[TimedAnswer], number: int, findings: list[Finding]) -> list[Finding]:
        """Return the findings of a wrong answer, with an explanation in front if there is one.

        Args:
            answers: all answers of the block or burst.
            number: index of the wrong one.
            findings: what is wrong with it.
        """
        if findings[0].kind in ("wrong_structure", "wrong_shape", "wrong_dtype"):
            return findings
        with self.checker.case.held() as case:
            first = [leaf.expected.to(leaf.dtype) for leaf in case.leaves]
        others = [*answers, TimedAnswer(None, "", [], answers[number].got, first)]
        if self.checker.is_replayed(answers[number], others):
            message = "a timed call returned the right answer to the inputs of another call, not to its own"
            return [Finding(kind="replayed_output", message=message), *findings]
        if self._reads_stale_inputs():
            message = (
                "a timed call answered for the inputs that had lain in the same memory before: a stream that does not "
                "wait for the current one, or an answer kept by address"
            )
            cure = "let every other stream wait for the current stream before it reads an input"
            return [Finding(kind="replayed_output", message=message, cure=cure), *findings]
        if self._finishes_late():
            message = (
                "the answer was not there when the forward's stream had reached its end, and was right a little later: "
                "work was left to a thread or to a stream that nobody waits for"
            )
            cure = "let the current stream wait for every other stream before forward returns"
            return [Finding(kind="late_output", message=message, cure=cure), *findings]
        return findings

    def _reads_stale_inputs(self) -> bool:
        """Whether a call on inputs in a used buffer is answered with the answer to the inputs before them."""
        if self.session.sets < 2:
            return False
        self.session.prepare_sets(2)
        self.session.call_baseline([0, 1])
        calls = [self.session.call_candidate(self.worker, i, first=not i, buffer=0) for i in (0, 1)]
        answers = [self._answer(number, call) for number, call in enumerate(calls)]
        return not self.checker.check_form(answers[1]) and self.checker.is_replayed(answers[1], answers)

    def _finishes_late(self) -> bool:
        """Whether the answer of one more call is wrong when it should be there, and right after some time."""
        for _ in range(LATE_TRIES):
            self.session.prepare_sets(1)
            self.session.call_baseline([0])
            answer = self._answer(0, self.session.call_candidate(self.worker, 0, first=True))
            if self.checker.check_form(answer):
                return False
            if self.checker.is_close(answer):
                continue  # in time by chance
            time.sleep(LATE_SECONDS)
            for target in answer.got:
                poison_(target)
            torch.cuda.synchronize()
            answer = self._answer(0, self.worker.ask("deliver_again", set=0))
            return not self.checker.check_form(answer) and self.checker.is_close(answer)
        return False

    def _answer(self, number: int, call: dict[str, Any]) -> TimedAnswer:
        """Return the answer on a set, given what the worker tells of its call."""
        return self.session.answer(number, call.get("structure"), call.get("leaves"))
