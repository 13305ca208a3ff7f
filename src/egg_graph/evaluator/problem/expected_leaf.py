"""What one leaf (tensor) of the answer must be, and how far off a candidate's may be."""

from __future__ import annotations

from dataclasses import dataclass

import torch


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

    @property
    def exact(self) -> bool:
        """Whether the leaf holds integers or booleans, which are compared for equality."""
        return not (self.dtype.is_floating_point or self.dtype.is_complex)
