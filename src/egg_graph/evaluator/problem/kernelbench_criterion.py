"""Apply KernelBench's criterion to an answer, for comparison with reported results. It never decides the verdict.

KernelBench's `eval.py` (2026-03) calls `torch.allclose(reference, candidate, atol=tol, rtol=tol)`: the relative part
multiplies the candidate's value, NaN equals nothing, and the reference is PyTorch's answer at the declared precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.error_sums import pieces
from egg_graph.schema import Precision, Tolerance

TOLERANCE: dict[Precision, float] = {"ieee": 1e-4, "tf32": 1e-4, "tf32_truncated": 1e-4, "bf16": 1e-2, "fp16": 1e-2}
"""KernelBench's `atol` and `rtol`."""


def tolerance_of(case: Case, leaves: Sequence[Any], precision: Precision) -> Tolerance | None:
    """Check whether KernelBench would accept an answer; None if PyTorch's own answer was not kept.

    Args:
        case: the case, with PyTorch's answer in its leaves.
        leaves: leaves of the candidate's answer. A wrong shape or dtype fails, as in KernelBench.
        precision: the task's policy.
    """
    tolerance, passed, largest = TOLERANCE[precision], True, 0.0
    for got, leaf in zip(leaves, case.leaves, strict=True):
        if leaf.pytorch is None:
            return None
        close, difference = accepts(leaf.pytorch, got, tolerance)
        passed, largest = passed and close, max(largest, difference)
    return Tolerance(tolerance=tolerance, passed=passed, max_difference=largest)


def accepts(reference: torch.Tensor, got: Any, tolerance: float) -> tuple[bool, float]:
    """Whether KernelBench's `allclose` accepts one leaf, and the largest absolute difference.

    The difference is infinite if the shapes or dtypes differ or the answer holds NaN.
    """
    if not isinstance(got, torch.Tensor) or got.shape != reference.shape or got.dtype != reference.dtype:
        return False, float("inf")
    if got.device.type == "meta":  # only a shape and dtype: the content was not delivered
        return False, float("inf")
    close, largest = True, 0.0
    for a, b in pieces(reference, got):
        close = close and bool(torch.allclose(a, b, atol=tolerance, rtol=tolerance))
        wide = torch.complex128 if a.dtype.is_complex else torch.float64
        difference = torch.where(a == b, 0.0, (b.to(wide) - a.to(wide)).abs())  # inf equals inf
        largest = max(largest, float(difference.nan_to_num(nan=float("inf")).max()) if a.numel() else 0.0)
    return close, largest
