"""How far a candidate's answers to one question are apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from egg_graph.evaluator.problem.comparison import same_bytes
from egg_graph.evaluator.problem.error_sums import pieces


@dataclass
class Spread:
    """How far answers to one question are apart."""

    answers: int = 0
    first: list[torch.Tensor] = field(default_factory=list)
    same: bool = True
    """All are equal, bit for bit."""
    apart: float = 0.0
    """Largest absolute difference from the first."""

    def add(self, answer: Sequence[torch.Tensor]) -> None:
        """Compare an answer with the first one, of which a copy is kept."""
        self.answers += 1
        if self.answers == 1:
            self.first = [x.clone() for x in answer]
        elif not same_answers(self.first, answer):
            self.same = False
            self.apart = max(self.apart, *(_largest_difference(a, b) for a, b in zip(self.first, answer, strict=True)))

    def __str__(self) -> str:
        if self.same:
            return f"{self.answers} calls on the same inputs answer alike, bit for bit"
        return f"answers differ between runs by at most {self.apart:.1e}: atomics?"


def same_answers(first: Sequence[torch.Tensor], second: Sequence[torch.Tensor]) -> bool:
    """Whether two answers are equal, bit for bit."""
    return all(same_bytes(a, b) for a, b in zip(first, second, strict=True))


def _largest_difference(a: torch.Tensor, b: torch.Tensor) -> float:
    if not a.numel() or a.is_complex():
        return 0.0
    return max(float((x.double() - y.double()).abs().nan_to_num(0.0).max()) for x, y in pieces(a, b))
