"""What one leaf (tensor) of the answer must be, and how far off a candidate's may be."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from egg_graph.evaluator.problem.error_sums import pieces
from egg_graph.evaluator.problem.selections import Selection


@dataclass(frozen=True)
class ExpectedLeaf:
    """The expected values of one leaf and the errors that are allowed."""

    expected: torch.Tensor
    """Expected values in float64 or complex128; integers and booleans keep their dtype."""
    dtype: torch.dtype
    """Dtype of PyTorch's answer at the declared precision."""
    budget: float
    """Largest relative L2 error. For integers, the largest share of elements that may differ."""
    slack: float
    """Largest absolute error of any element of PyTorch's own answer, times a margin."""
    pytorch_error: float
    """Relative L2 error of PyTorch's own answer; for integers, the share of elements that differ from fp64's."""
    pytorch: torch.Tensor | None = None
    """PyTorch's answer at the declared precision, for KernelBench's criterion."""
    bias_budget: float = float("inf")
    """Largest relative error that all elements may share (see `ErrorSums.bias`)."""
    selection: Selection | None = None
    """What the leaf's indices were selected from, where it holds indices and that is known."""
    rounded: tuple[torch.Tensor, torch.Tensor] | None = None
    """Least and greatest of the integers that rounding may give, where those differ by one."""

    @property
    def exact(self) -> bool:
        """Whether the leaf holds integers or booleans, which are compared for equality."""
        return not (self.dtype.is_floating_point or self.dtype.is_complex)

    def wrong_integers(self, got: torch.Tensor) -> torch.Tensor:
        """Mask of the integers that are not the expected ones, nor as right as those."""
        wrong = got != self.expected
        if self.rounded is not None:
            least, greatest = self.rounded
            wrong &= (got < least) | (got > greatest)
        if self.selection is None or not bool(wrong.any()):
            return wrong
        return wrong & ~self.selection.equally_right(got, self.expected)

    def share_of_wrong(self, got: torch.Tensor) -> float:
        """The share of these integers."""
        if not got.numel():
            return 0.0
        if self.selection is not None or self.rounded is not None:
            return int(self.wrong_integers(got).sum()) / got.numel()
        return sum(int((a != b).sum()) for a, b in pieces(got, self.expected)) / got.numel()
