"""Sum the errors of an answer piece by piece: an answer of gigabytes needs no temporary of its own size in fp64."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

PIECE = 1 << 26
"""Most elements of one piece; in fp64 they take 512 MiB."""


@dataclass(frozen=True)
class ErrorSums:
    """Errors of an answer over the elements whose expected value is finite, in fp64."""

    relative: float
    """||got - expected|| / ||expected||; infinite if the expected values are all zero and the answer is not."""
    bias: float
    """Relative error that all elements share: the larger of the common offset divided by the root mean square of the
    expected values, and the common factor minus one."""
    largest: float
    """Largest absolute error of one element."""
    norm: float
    """||expected||."""
    rms: float
    """Root mean square of the expected values, over all elements; those that are not finite count as zero."""


NO_ERRORS = ErrorSums(relative=0.0, bias=0.0, largest=0.0, norm=0.0, rms=0.0)
"""Errors of an answer without elements."""


def pieces(*tensors: torch.Tensor, size: int = PIECE) -> Iterator[tuple[torch.Tensor, ...]]:
    """Yield views of the same elements of tensors of one shape; together the views cover every element once.

    Args:
        tensors: of one shape, of any strides.
        size: about the number of elements of one piece.
    """
    shape = tensors[0].shape
    if tensors[0].numel() <= size:
        yield tensors
        return
    dim = max(range(len(shape)), key=lambda n: shape[n])
    step = max(1, size * shape[dim] // tensors[0].numel())
    for start in range(0, shape[dim], step):
        length = min(step, shape[dim] - start)
        yield tuple(x.narrow(dim, start, length) for x in tensors)


def sum_errors(got: torch.Tensor, expected: torch.Tensor) -> ErrorSums:
    """Compare an answer with its expected values.

    Args:
        got: answer, of any floating-point or complex dtype.
        expected: expected values of the same shape, in float64 or complex128.
    """
    if not expected.numel():
        return NO_ERRORS
    rows = torch.stack([_sums(*piece) for piece in pieces(got, expected)])
    count, squares, wrong_squares = rows[:, :3].real.sum(0).tolist()
    offset, along = (float(x) for x in rows[:, 3:5].sum(0).abs())
    largest = float(rows[:, 5].real.max())
    norm, difference = squares**0.5, wrong_squares**0.5
    rms = (squares / expected.numel()) ** 0.5
    if norm == 0.0:
        error = 0.0 if difference == 0.0 else float("inf")
        return ErrorSums(error, error, largest, norm, rms)
    shared = max(offset / (norm * count**0.5), along / squares)
    return ErrorSums(difference / norm, shared, largest, norm, rms)


def relative_error(got: torch.Tensor, expected: torch.Tensor) -> float:
    """||got - expected|| / ||expected|| in fp64, over the elements where `expected` is finite."""
    return sum_errors(got, expected).relative


def _sums(got: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """Sums over one piece, as one complex vector on its device.

    They are: number of finite elements, squares of the expected values, squares of the errors, errors, errors along the
    expected values, and the largest absolute error.
    """
    finite = torch.isfinite(expected)
    if not bool(finite.all()):
        got, expected = got[finite], expected[finite]
    difference = got.to(expected.dtype) - expected
    largest = difference.abs().max() if difference.numel() else expected.new_zeros(())
    sums = (
        expected.new_tensor(expected.numel()),
        torch.linalg.vector_norm(expected).square(),
        torch.linalg.vector_norm(difference).square(),
        difference.sum(),
        torch.vdot(expected.reshape(-1), difference.reshape(-1)),
        largest,
    )
    return torch.stack([x.to(torch.complex128) for x in sums])


def all_within(got: torch.Tensor, expected: torch.Tensor, slack: float, part: float, rms: float) -> bool:
    """Whether no element is further off than `slack + part * (|expected| + rms)`; non-finite expected values pass.

    Args:
        got: answer.
        expected: expected values.
        slack: absolute error that any element may have.
        part: error that it may have relative to its expected value and `rms`.
        rms: root mean square of the expected values.
    """
    for piece, due in pieces(got, expected):
        finite = torch.isfinite(due)
        size = torch.where(finite, due.abs(), 0.0)
        difference = torch.where(finite, (piece.to(due.dtype) - due).abs(), 0.0)
        if not bool((difference <= slack + part * (size + rms)).all()):
            return False
    return True
