"""What one leaf (tensor) of the answer must be, and the two measures of error that a candidate's leaf is judged by."""

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
    """Largest relative error that all elements may share (see `bias`)."""

    @property
    def exact(self) -> bool:
        """Whether the leaf holds integers or booleans, which are compared for equality."""
        return not (self.dtype.is_floating_point or self.dtype.is_complex)


def relative_error(got: torch.Tensor, expected: torch.Tensor) -> float:
    """||got - expected|| / ||expected|| in fp64, over the elements where `expected` is finite."""
    finite = torch.isfinite(expected)
    if not bool(finite.all()):
        got, expected = got[finite], expected[finite]
    norm = float(torch.linalg.vector_norm(expected))
    difference = float(torch.linalg.vector_norm(got.to(expected.dtype) - expected))
    if norm == 0.0:
        return 0.0 if difference == 0.0 else float("inf")
    return difference / norm


def bias(got: torch.Tensor, expected: torch.Tensor) -> float:
    """The relative error that all elements share, in fp64, over the elements where `expected` is finite.

    It is the larger of two numbers: the common offset divided by the root mean square of `expected`, and the common
    factor minus one.
    """
    finite = torch.isfinite(expected)
    if not bool(finite.all()):
        got, expected = got[finite], expected[finite]
    if not expected.numel():
        return 0.0
    difference = (got.to(expected.dtype) - expected).reshape(-1)
    count, norm = expected.numel(), float(torch.linalg.vector_norm(expected))  # no temporaries: leaves may be huge
    if norm == 0.0:
        return 0.0 if not bool(difference.any()) else float("inf")
    offset = float(difference.sum().abs()) / (norm * count**0.5)
    return max(offset, float(torch.vdot(expected.reshape(-1), difference).abs()) / norm**2)
