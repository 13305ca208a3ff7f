"""How exactly a candidate must answer: budgets calibrated from PyTorch's own error, and when nothing can be judged."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from egg_graph.evaluator.problem.leaf_comparison import Leaf, bias, relative_error
from egg_graph.schema import FindingKind, Precision

MARGIN: dict[Precision, float] = {"ieee": 8.0, "tf32": 2.0, "bf16": 2.0, "fp16": 2.0}
"""Budget over PyTorch's own error at that precision. An fp32 sum may be ordered otherwise at several times PyTorch's
error; rounding to TF32, bf16 or fp16 dominates any ordering, and truncation instead of it costs 2.7 times PyTorch's."""
ORDERING = 8.0
"""The same for what fp32 arithmetic costs within a coarser policy, and for PyTorch's bias."""
FLOOR = {torch.float64: 1e-13, torch.float32: 4e-6, torch.float16: 1e-3, torch.bfloat16: 6e-3}
"""Some ulp of the output's dtype: approximate exponentials and the last rounding are nobody's fault."""
BIAS_FLOOR = {torch.float64: 1e-13, torch.float32: 2e-6, torch.float16: 1.2e-4, torch.bfloat16: 7.5e-4}
"""The same for an error that all elements share: approximations have one, rounding has none."""
CHAOTIC = 0.1
"""If PyTorch itself is this far from fp64, no answer can be judged."""


class Unevaluable(Exception):
    """No candidate can be judged against this reference; the message says why.

    Args:
        message: in words for the reference's author.
        kind: `stochastic_problem` if it answers differently each time.
    """

    def __init__(self, message: str, kind: FindingKind = "degenerate_problem") -> None:
        super().__init__(message)
        self.kind = kind


def calibrated(
    answer: torch.Tensor,
    expected: torch.Tensor,
    in_fp32: torch.Tensor,
    in_tf32: torch.Tensor,
    nearby: Sequence[torch.Tensor],
    precision: Precision,
) -> Leaf:
    """What one leaf must be, and how exactly.

    Args:
        answer: PyTorch's at the declared precision.
        expected: in fp64, or the integers themselves.
        in_fp32: PyTorch's in fp32 (under `tf32`; else `answer`).
        in_tf32: with all products in TF32, where the policy allows it (else `answer`).
        nearby: fp64 answers to inputs an ulp away: where they differ, the problem amplifies any rounding.
        precision: the task's policy.

    Raises:
        Unevaluable: if no answer could be told from a wrong one.
    """
    if not (answer.dtype.is_floating_point or answer.dtype.is_complex):
        share = float((answer != expected).double().mean()) if answer.numel() else 0.0
        return Leaf(expected, answer.dtype, budget=2 * share, slack=0.0, pytorch_error=share, pytorch=answer)
    finite = torch.isfinite(expected)
    if not bool(finite.any()):
        raise Unevaluable("the reference's answer is nowhere finite")
    wide = answer.to(expected.dtype)
    if not bool((torch.isfinite(wide) == finite).all()):
        raise Unevaluable("at the declared precision the reference overflows where it does not in fp64")
    if not float(torch.where(finite, expected.abs(), 0.0).max()) > 0.0:
        raise Unevaluable("the reference's answer is zero everywhere, whatever its input: any empty kernel would pass")
    error = relative_error(wide, expected)
    if error > CHAOTIC:
        raise Unevaluable(f"PyTorch's own answer is {error:.1e} off fp64 at this precision: nothing can be told apart")
    ordering = ORDERING * relative_error(in_fp32.to(expected.dtype), expected) if precision in ("ieee", "tf32") else 0.0
    real = torch.empty(0, dtype=answer.dtype).real.dtype if answer.is_complex() else answer.dtype
    others = [wide, in_tf32.to(expected.dtype), *nearby]
    worst = max(float(torch.where(finite, (x - expected).abs(), 0.0).max()) for x in others)
    budget = max(MARGIN[precision] * max(relative_error(x, expected) for x in others), ordering, FLOOR.get(real, 4e-6))
    shared = ORDERING * max(bias(x, expected) for x in others)
    return Leaf(
        expected,
        answer.dtype,
        budget,
        slack=8 * worst,
        pytorch_error=error,
        pytorch=answer,
        bias_budget=max(shared, budget * _shared_part(expected), BIAS_FLOOR.get(real, 2e-6)),
    )


def _shared_part(expected: torch.Tensor) -> float:
    """The part of an unbiased error that may survive its mean: errors along a row or a column may go together, so
    only the smaller number of them counts as independent."""
    if expected.dim() < 2 or not expected.numel():
        return 1.0
    columns = expected.shape[-1]
    return min(1.0, 8.0 / min(columns, expected.numel() // columns) ** 0.5)
