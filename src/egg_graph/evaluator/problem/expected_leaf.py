"""What one leaf (tensor) of the answer must be, and how far off a candidate's may be."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from egg_graph.evaluator.problem.error_sums import pieces
from egg_graph.evaluator.problem.selections import Selection


@dataclass(frozen=True)
class Jumps:
    """Elements at which the reference's answer jumps where its inputs move by a few ulp."""

    places: torch.Tensor
    """Their places in the flattened leaf."""
    sides: torch.Tensor
    """Least and greatest value of each, as two rows in float64."""


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
    jumps: Jumps | None = None
    """The few elements of a floating-point leaf that may have another value, too."""

    @property
    def exact(self) -> bool:
        """Whether the leaf holds integers or booleans, which are compared for equality."""
        return not (self.dtype.is_floating_point or self.dtype.is_complex)

    def settled(self, got: torch.Tensor) -> torch.Tensor:
        """An answer with the expected values in the place of others that are as right."""
        if self.jumps is None:
            return got
        places, sides = self.jumps.places, self.jumps.sides
        values = got.reshape(-1)
        off = (values[places].double() - sides).abs()
        right = (off <= self.slack + 8 * self.budget * sides.abs()).any(0)
        values = values.index_put((places[right],), self.expected.reshape(-1)[places[right]].to(got.dtype))
        return values.reshape(got.shape)

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
