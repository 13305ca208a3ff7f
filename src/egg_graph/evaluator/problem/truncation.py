"""Recognise an answer whose products had operands truncated to TF32, by PyTorch's own answer under that arithmetic."""

from __future__ import annotations

from collections.abc import Callable

import torch

from egg_graph.evaluator.problem.error_sums import relative_error
from egg_graph.evaluator.problem.expected_leaf import ExpectedLeaf
from egg_graph.schema import Finding

Emulated = Callable[[], torch.Tensor | None]
"""Returns PyTorch's answer with truncated operands; None if the reference cannot run so."""
NEARER = 0.4
"""An answer is a truncated one if its distance to that is at most this part of its distance to the right one."""
CURE = (
    "round every operand of every tl.dot: x = tl.inline_asm_elementwise('cvt.rna.tf32.f32 $0, $1;', '=r,r', [x], "
    'dtype=tl.float32, is_pure=True, pack=1); or pass input_precision="tf32x3" to tl.dot. Where truncated products are '
    "wanted, judge under the precision policy tf32_truncated"
)


def truncation(error: float, leaf: ExpectedLeaf, emulated_error: float | None, where: str) -> Finding:
    """The finding for truncated operands.

    Args:
        error: relative error of the candidate.
        leaf: what was expected.
        emulated_error: PyTorch's own error with truncated operands.
        where: name of leaf and shape.
    """
    told = "" if emulated_error is None else f" ({emulated_error:.1e} when emulated)"
    over = "" if error <= leaf.budget else f", budget {leaf.budget:.2e}"
    return Finding(
        kind="tf32_truncation",
        message=f"relative error {error:.2e}{over} at precision tf32: what a plain fp32 tl.dot makes, which drops the "
        f"low mantissa bits of its operands{told} where PyTorch rounds them",
        where=where,
        cure=CURE,
    )


def is_truncated(got: torch.Tensor, error: float, truncated: Emulated) -> bool:
    """Whether a wrong answer is much nearer to the truncated one than to the right one.

    Args:
        got: the candidate's answer; finite where the right one is.
        error: its relative error.
        truncated: PyTorch's answer with truncated operands.
    """
    answer = truncated()
    if answer is None or answer.shape != got.shape:
        return False
    both = torch.isfinite(answer) & torch.isfinite(got)
    there = torch.where(both, answer, 0.0).double()
    return relative_error(torch.where(both, got, 0.0).double(), there) <= NEARER * error
