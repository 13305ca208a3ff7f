"""Calibrate how exactly a candidate must answer, from PyTorch's own error against fp64."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import torch

from egg_graph.evaluator.problem.case import Unevaluable
from egg_graph.evaluator.problem.error_sums import ErrorSums, sum_errors
from egg_graph.evaluator.problem.expected_leaf import ExpectedLeaf
from egg_graph.evaluator.problem.selections import Selection
from egg_graph.schema import FP32, Precision

MARGIN: dict[Precision, float] = {"ieee": 8.0, "tf32": 2.0, "tf32_truncated": 2.0, "bf16": 2.0, "fp16": 2.0}
"""The budget is PyTorch's own error at that precision times this factor. An fp32 sum in another order may have several
times PyTorch's error. At TF32, bf16 and fp16 the rounding of operands dominates any order of summation, and truncation
costs 2.7 times PyTorch's error."""
ORDERING = 8.0
"""The same factor for the error of fp32 arithmetic within a coarser policy, and for PyTorch's bias."""
FLOOR = {torch.float64: 1e-13, torch.float32: 4e-6, torch.float16: 1e-3, torch.bfloat16: 6e-3}
"""Smallest budget by dtype of the output: some ulp, for approximate exponentials and the last rounding."""
BIAS_FLOOR = {torch.float64: 1e-13, torch.float32: 2e-6, torch.float16: 1.2e-4, torch.bfloat16: 7.5e-4}
"""Smallest budget for an error that all elements share: approximations have one, rounding has none."""
TRUNCATED_SUMS = 1e-5
"""Smallest budget for such an error of fp32 answers to 16-bit operands: Hopper's tensor cores truncate sums in place of
rounding them (by 2.4e-6 in a product of 1,024 terms)."""
CHAOTIC = 0.1
"""Refuse the problem if PyTorch's own relative error against fp64 exceeds this."""


def calibrate_leaf(
    answer: torch.Tensor,
    expected: torch.Tensor,
    in_fp32: ErrorSums | None,
    others: Sequence[ErrorSums],
    precision: Precision,
    selection: Selection | None = None,
    rounds_to: Collection[torch.dtype] = (),
) -> ExpectedLeaf:
    """Set the budgets of one leaf. Both tensors have the same shape.

    Args:
        answer: PyTorch's answer at the declared precision.
        expected: the answer in fp64, or the integers themselves.
        in_fp32: errors of PyTorch's answer in fp32 (where products are in TF32; None where `answer` is in fp32 itself).
        others: errors of answers that are as good as PyTorch's: with all products in TF32, if the policy allows it, and
            with truncated operands under `tf32_truncated`; in fp64 to inputs an ulp away, where a difference shows that
            the problem amplifies any rounding.
        precision: the task's policy.
        selection: what the leaf's indices were selected from, if it holds such.
        rounds_to: dtypes to which the reference rounds numbers on its way; they count under 16-bit policies. A
            kernel rounds others there: the exponentials of an online softmax, beside the largest so far.

    Raises:
        Unevaluable: if a right answer could not be told from a wrong one.
    """
    if not (answer.dtype.is_floating_point or answer.dtype.is_complex):
        leaf = ExpectedLeaf(expected, answer.dtype, 0.0, 0.0, pytorch_error=0.0, pytorch=answer, selection=selection)
        share = leaf.share_of_wrong(answer)
        return replace(leaf, budget=2 * share, pytorch_error=share)
    own = _own_errors(answer, expected)
    ordering = ORDERING * (in_fp32 or own).relative if precision in FP32 else 0.0
    real = torch.empty(0, dtype=answer.dtype).real.dtype if answer.is_complex() else answer.dtype
    known = [own, *others]
    floor = max(FLOOR.get(dtype, 4e-6) for dtype in (real, *(() if precision in FP32 else rounds_to)))
    budget = max(MARGIN[precision] * max(x.relative for x in known), ordering, floor)
    shared = ORDERING * max(x.bias for x in known)
    least = TRUNCATED_SUMS if real == torch.float32 and precision in ("bf16", "fp16") else BIAS_FLOOR.get(real, 2e-6)
    return ExpectedLeaf(
        expected,
        answer.dtype,
        budget,
        slack=8 * max(x.largest for x in known),
        pytorch_error=own.relative,
        pytorch=answer,
        bias_budget=max(shared, budget * _shared_part(expected), least),
    )


def _own_errors(answer: torch.Tensor, expected: torch.Tensor) -> ErrorSums:
    """PyTorch's own errors. Raises `Unevaluable` if they leave nothing to judge by."""
    finite = torch.isfinite(expected)
    if not bool(finite.any()):
        raise Unevaluable("the reference's answer is nowhere finite")
    if not bool((torch.isfinite(answer) == finite).all()):
        raise Unevaluable("at the declared precision the reference overflows where it does not in fp64")
    places_alone = not bool(finite.all())  # zeros and infinities, as in a mask that is added to scores
    del finite
    own = sum_errors(answer, expected)
    if not own.norm > 0.0 and not places_alone:
        raise Unevaluable("the reference's answer is zero everywhere: any empty kernel would pass")
    if own.relative > CHAOTIC:
        raise Unevaluable(
            f"PyTorch's own answer is {own.relative:.1e} off fp64 at this precision: nothing can be told apart"
        )
    return own


def _shared_part(expected: torch.Tensor) -> float:
    """The share of an unbiased error that its mean may keep.

    Errors along a row or a column may be correlated, so only the smaller of the two counts is taken as independent.
    """
    if expected.dim() < 2 or not expected.numel():
        return 1.0
    columns = expected.shape[-1]
    return min(1.0, 8.0 / min(columns, expected.numel() // columns) ** 0.5)
