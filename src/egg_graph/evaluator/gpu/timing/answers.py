"""Every timed answer is compared: with PyTorch's on the same inputs, and in fp64 before anybody is blamed.

PyTorch's answer at the declared precision errs as well, so its own error is allowed on top of the budget. An answer
that is not close enough even so is compared once more, as in the correctness rungs, with the fp64 reference on the very
inputs of that call; only that comparison rejects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from egg_graph.evaluator.problem.case import Case, Unevaluable
from egg_graph.evaluator.problem.case_builder import with_other_inputs
from egg_graph.evaluator.problem.comparison import judge_leaves
from egg_graph.evaluator.problem.expected_leaf import ExpectedLeaf
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.problem.reference import one_line
from egg_graph.evaluator.wire.exchange import dtype_name
from egg_graph.schema import Check, Finding

EXACT = 6
"""Comparisons in fp64 of one race, at most; each costs as much as a correctness rung."""


@dataclass
class TimedAnswer:
    """One call's answer."""

    seed: int | None
    """Of its inputs; None where they are the case's own."""
    structure: Any
    forms: Any
    """As the worker told them; checked against the judge's own."""
    got: Sequence[torch.Tensor]
    """The judge's buffers, with what the worker put there."""
    expected: Sequence[torch.Tensor]
    """PyTorch's answer on the same inputs, same dtypes."""


@dataclass
class Examiner:
    """Compares the timed answers of one race."""

    problem: Problem
    case: Case
    machine: str
    source: str
    """Of the candidate, which words of a finding may name."""
    checked: int = 0
    worst: float = 0.0
    """Largest relative difference from PyTorch's answer among those accepted."""
    check: Check | None = None
    """The latest comparison in fp64, if there was one."""
    exact: int = 0
    notes: list[str] = field(default_factory=list)

    def examine(self, answers: Sequence[TimedAnswer]) -> tuple[int, list[Finding]]:
        """Number of the first answer that is wrong, and what is wrong with it; (-1, []) if all are right."""
        for number, answer in enumerate(answers):
            findings = self.form(answer) or self._values(answer)
            if findings:
                return number, findings
        return -1, []

    def form(self, answer: TimedAnswer) -> list[Finding]:
        """What is wrong with an answer before its values."""
        if answer.structure != self.case.structure:
            message = f"a timed call returns {answer.structure} where the reference returns {self.case.structure}"
            return [Finding(kind="wrong_structure", message=message)]
        wanted = [{"dtype": dtype_name(x), "shape": list(x.shape)} for x in answer.expected]
        if answer.forms != wanted:
            return [Finding(kind="wrong_structure", message=f"a timed call returns {answer.forms} instead of {wanted}")]
        return []

    def close(self, answer: TimedAnswer) -> bool:
        """Whether an answer is PyTorch's, as far as both may err."""
        differences = [
            difference(got, expected, leaf)
            for got, expected, leaf in zip(answer.got, answer.expected, self.case.leaves, strict=True)
        ]
        right = all(d <= allowed(leaf) for d, leaf in zip(differences, self.case.leaves, strict=True))
        if right:
            self.worst = max([self.worst, *differences])
        return right

    def replayed(self, answer: TimedAnswer, others: Sequence[TimedAnswer]) -> bool:
        """Whether a wrong answer is right for other inputs, for which this one's would be wrong."""
        return any(
            other is not answer
            and self.close(TimedAnswer(None, "", [], answer.got, other.expected))
            and not self.close(TimedAnswer(None, "", [], answer.expected, other.expected))
            for other in others
        )

    def _values(self, answer: TimedAnswer) -> list[Finding]:
        if self.close(answer):
            self.checked += 1
            return []
        if self.exact >= EXACT:
            self._note("some timed answers differ from PyTorch's, though right in fp64: not all were compared")
            return []
        self.exact += 1
        try:
            case = self._exactly(answer.seed)
        except Unevaluable as error:
            self._note(f"a timed answer was not compared: {one_line(error)}")
            return []
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            return [self._plainly(answer)]
        findings, self.check = judge_leaves(
            self.problem.task, case, answer.got, machine=self.machine, source=self.source
        )
        self.checked += not findings
        return findings

    def _exactly(self, seed: int | None) -> Case:
        """The inputs of one call with fp64's answer."""
        if seed is None:
            return self.case
        return with_other_inputs(
            self.case,
            self.problem.reference,
            self.problem.task.precision,
            name="timed",
            seed=seed,
            device=self.problem.device,
        )

    def _plainly(self, answer: TimedAnswer) -> Finding:
        worst = max(
            difference(got, expected, leaf)
            for got, expected, leaf in zip(answer.got, answer.expected, self.case.leaves, strict=True)
        )
        return Finding(
            kind="wrong_values",
            message=f"the answer of a timed call is {worst:.1e} off PyTorch's at the declared precision (budget "
            f"{max(allowed(leaf) for leaf in self.case.leaves):.1e}; memory does not hold the fp64 answer)",
        )

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def allowed(leaf: ExpectedLeaf) -> float:
    """Largest difference from PyTorch's own answer, as `difference` measures it."""
    return leaf.budget + leaf.pytorch_error


def difference(got: torch.Tensor, expected: torch.Tensor, leaf: ExpectedLeaf) -> float:
    """Relative L2 distance of two answers (integers: share of differing elements).

    Infinite where a single element is off by far more than PyTorch's worst, or not finite where the other is.
    """
    if not got.numel():
        return 0.0
    same = (got == expected) | (got.isnan() & expected.isnan() if not leaf.exact else False)
    if leaf.exact:
        return float((~same).double().mean())
    wide = torch.complex128 if expected.is_complex() else torch.float64 if expected.dtype == torch.float64 else None
    a, b = (x.to(wide or torch.float32) for x in (got, expected))
    off = torch.where(same, 0.0, (a - b).abs())
    size = torch.where(torch.isfinite(b), b.abs(), 0.0)
    norm = torch.linalg.vector_norm(size, dtype=torch.float64)
    distance = torch.linalg.vector_norm(off, dtype=torch.float64)
    rms = norm / size.numel() ** 0.5
    # Both sides err: PyTorch's worst element (an eighth of the slack) comes on top.
    wrong = ~(off <= 1.125 * leaf.slack + 16 * leaf.budget * (size + rms))
    any_wrong, distance_, norm_ = torch.stack((wrong.any().double(), distance, norm)).tolist()
    if any_wrong or distance_ != distance_:
        return float("inf")
    return distance_ / norm_ if norm_ > 0 else 0.0 if distance_ == 0 else float("inf")
