"""Compare the answer of every timed call with PyTorch's answer on the same inputs.

PyTorch's answer at the declared precision has an error of its own, which is allowed on top of the budget. An answer
that is still not close enough is compared once more, as in the correctness rungs, with the fp64 reference on the inputs
of that call. Only that second comparison rejects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

import torch

from egg_graph.evaluator.problem.case import Case, Unevaluable
from egg_graph.evaluator.problem.case_builder import with_other_inputs
from egg_graph.evaluator.problem.comparison import judge_leaves
from egg_graph.evaluator.problem.error_sums import all_within, pieces
from egg_graph.evaluator.problem.expected_leaf import ExpectedLeaf
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.problem.reference import one_line
from egg_graph.evaluator.wire.exchange import dtype_name
from egg_graph.schema import Check, Finding

MOST_FP64_COMPARISONS = 6
"""Most comparisons with fp64 for one candidate; each costs as much as a correctness rung."""
SMALLEST_RMS, LARGEST_RMS = 1e-12, 1e12
"""Root mean squares of an answer between which fp32 holds the squares of its elements."""


@dataclass
class TimedAnswer:
    """The answer of one timed call."""

    seed: int | None
    """Seed of its inputs; None for the case's own inputs."""
    structure: Any
    """Structure of the answer as the worker told it; checked against the judge's."""
    forms: Any
    """Dtype and shape of every leaf as the worker told them; checked against the judge's."""
    got: Sequence[torch.Tensor]
    """The judge's buffers, filled by the worker."""
    expected: Sequence[torch.Tensor]
    """PyTorch's answer on the same inputs, in the same dtypes."""


@dataclass
class AnswerChecker:
    """Compares the timed answers of one candidate."""

    problem: Problem
    case: Case
    machine: str
    """Name of the GPU."""
    source: str
    """Text of the candidate, whose names a finding may use."""
    checked: int = 0
    """How many answers were accepted."""
    check: Check | None = None
    """The latest comparison with fp64; None if PyTorch's answers were enough."""
    fp64_comparisons: int = 0
    """How many answers were compared with fp64."""
    notes: list[str] = field(default_factory=list)

    def check_all(self, answers: Sequence[TimedAnswer]) -> tuple[int, list[Finding]]:
        """Return the number of the first wrong answer and what is wrong with it; (-1, []) if all are right."""
        for number, answer in enumerate(answers):
            findings = self.check_form(answer) or self._check_values(answer)
            if findings:
                return number, findings
        return -1, []

    def check_form(self, answer: TimedAnswer) -> list[Finding]:
        """Check structure, dtypes and shapes of an answer."""
        if answer.structure != self.case.structure:
            message = f"a timed call returns {answer.structure} where the reference returns {self.case.structure}"
            return [Finding(kind="wrong_structure", message=message)]
        wanted = [{"dtype": dtype_name(x), "shape": list(x.shape)} for x in answer.expected]
        if answer.forms != wanted:
            return [Finding(kind="wrong_structure", message=f"a timed call returns {answer.forms} instead of {wanted}")]
        return []

    def is_close(self, answer: TimedAnswer) -> bool:
        """Whether an answer is as close to PyTorch's as the errors of both allow."""
        return self._are_close(answer.got, answer.expected)

    def is_replayed(self, answer: TimedAnswer, others: Sequence[TimedAnswer]) -> bool:
        """Whether a wrong answer is the right one to the inputs of another call, to which this call's is wrong."""
        return any(
            other is not answer
            and self._are_close(answer.got, other.expected)
            and not self._are_close(answer.expected, other.expected)
            for other in others
        )

    def _are_close(self, got: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> bool:
        return all(
            relative_difference(a, b, leaf) <= allowed_difference(leaf)
            for a, b, leaf in zip(got, expected, self.case.leaves, strict=True)
        )

    def _check_values(self, answer: TimedAnswer) -> list[Finding]:
        if self.is_close(answer):
            self.checked += 1
            return []
        if self.fp64_comparisons >= MOST_FP64_COMPARISONS:
            self._add_note("some timed answers differ from PyTorch's, though right in fp64: not all were compared")
            return []
        self.fp64_comparisons += 1
        try:
            with self._fp64_case(answer.seed).held() as case:
                findings, self.check = judge_leaves(
                    self.problem.task, case, answer.got, machine=self.machine, source=self.source
                )
        except Unevaluable as error:
            self._add_note(f"a timed answer was not compared: {one_line(error)}")
            return []
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            return [self._finding_without_fp64(answer)]
        self.checked += not findings
        return findings

    def _fp64_case(self, seed: int | None) -> Case:
        """Return the case with the inputs of one call and their answer in fp64."""
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

    def _finding_without_fp64(self, answer: TimedAnswer) -> Finding:
        """Return the finding for an answer whose fp64 reference does not fit into the GPU's memory."""
        worst = max(
            relative_difference(got, expected, leaf)
            for got, expected, leaf in zip(answer.got, answer.expected, self.case.leaves, strict=True)
        )
        return Finding(
            kind="wrong_values",
            message=f"the answer of a timed call is {worst:.1e} off PyTorch's at the declared precision (budget "
            f"{max(allowed_difference(leaf) for leaf in self.case.leaves):.1e}; memory does not hold the fp64 answer)",
        )

    def _add_note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def allowed_difference(leaf: ExpectedLeaf) -> float:
    """Return the largest difference from PyTorch's own answer, as `relative_difference` measures it."""
    return leaf.budget + leaf.pytorch_error


def relative_difference(got: torch.Tensor, expected: torch.Tensor, leaf: ExpectedLeaf) -> float:
    """Return the relative L2 distance of two answers; for integers, the share of elements that differ.

    It is infinite if one element is off by far more than PyTorch's worst, or not finite where the other is finite.

    Args:
        got: the candidate's answer, any shape.
        expected: PyTorch's answer, same shape and dtype.
        leaf: budget, slack and exactness of this leaf of the answer.
    """
    if not got.numel():
        return 0.0
    if leaf.exact:
        return sum(int((a != b).sum()) for a, b in pieces(got, expected)) / got.numel()
    # Both sides have errors: PyTorch's worst element (an eighth of the slack) comes on top.
    slack, part = 1.125 * leaf.slack, 16 * leaf.budget
    norm, distance, largest = _norms(got, expected)
    rms = norm / got.numel() ** 0.5
    if not (isfinite(distance) and SMALLEST_RMS < rms < LARGEST_RMS):
        norm, distance, within = _careful_difference(got, expected, slack, part)
    else:
        within = largest <= slack + part * rms or all(
            all_within(_wide(a), _wide(b), slack, part, rms) for a, b in pieces(got, expected)
        )
    if not within:
        return float("inf")
    return distance / norm if norm > 0 else 0.0 if distance == 0 else float("inf")


def _norms(got: torch.Tensor, expected: torch.Tensor) -> tuple[float, float, float]:
    """L2 norm of `expected`, of the difference, and the largest difference; not finite where an element is not.

    They are summed in fp32 where the answers are narrower than fp64: a sum in fp64 would first copy them to fp64.
    """
    rows = []
    for a, b in pieces(got, expected):
        wide = _wide(b)
        off = _wide(a) - wide
        sums = (_norm(wide).square(), _norm(off).square(), torch.linalg.vector_norm(off, float("inf")).double())
        rows.append(torch.stack(sums))
    of_pieces = torch.stack(rows)
    square, off_square = of_pieces[:, :2].sum(0).tolist()
    return square**0.5, off_square**0.5, float(of_pieces[:, 2].max())


def _norm(x: torch.Tensor) -> torch.Tensor:
    return torch.linalg.vector_norm(x).double()


def _careful_difference(
    got: torch.Tensor, expected: torch.Tensor, slack: float, part: float
) -> tuple[float, float, bool]:
    """L2 norm of the finite part of `expected`, of the difference, and whether all elements are within their bounds.

    In fp64. Elements that are equal, or NaN on both sides, do not differ. The bounds are those of `all_within`.
    """
    squares = [torch.linalg.vector_norm(_finite_size(b), dtype=torch.float64) ** 2 for (b,) in pieces(expected)]
    norm = float(sum(squares, torch.zeros_like(squares[0]))) ** 0.5
    off_square, within = 0.0, True
    for a, b in pieces(got, expected):
        off = torch.where((a == b) | (a.isnan() & b.isnan()), 0.0, (_wide(a) - _wide(b)).abs())
        off_square += float(torch.linalg.vector_norm(off, dtype=torch.float64)) ** 2
        within &= bool((off <= slack + part * (_finite_size(b) + norm / got.numel() ** 0.5)).all())
    return norm, off_square**0.5, within


def _wide(x: torch.Tensor) -> torch.Tensor:
    """In a dtype whose rounding is no matter beside the difference that is sought."""
    return x.to(torch.complex128 if x.is_complex() else torch.float64 if x.dtype == torch.float64 else torch.float32)


def _finite_size(x: torch.Tensor) -> torch.Tensor:
    """Absolute values; 0 for infinities and NaN."""
    wide = _wide(x)
    return torch.where(torch.isfinite(wide), wide.abs(), 0.0)
