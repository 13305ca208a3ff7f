"""Candidate against expectation, leaf by leaf, with findings a debugger can act on.

The measure is the relative L2 error of a leaf against the fp64 reference. Beside it, no single element may be off by
far more than PyTorch's worst, so that a few wrong elements cannot hide in a large tensor; and the error may have no
common part beyond PyTorch's, so that a small factor or offset everywhere cannot hide in the noise of rounding.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch

from egg_graph.evaluator.wire.exchange import describe, dtype_name
from egg_graph.evaluator.wire.poison import poisoned
from egg_graph.schema import Finding, FindingKind

NARROW = re.compile(r"bfloat16|float16|bf16|fp16|\.half\(")
"""Where a source names a type narrower than fp32."""
SUSPECTS = "suspect padding lanes in a reduction, a missing mask, or a wrong constant"

Emulation = Literal["tf32", "truncated", "bf16"]


@dataclass(frozen=True)
class Leaf:
    """What one leaf of the answer must be."""

    expected: torch.Tensor
    """float64 (complex128), or the integers themselves."""
    dtype: torch.dtype
    """Of PyTorch's answer at the declared precision."""
    budget: float
    """Largest relative L2 error; for integers, largest share of differing elements."""
    slack: float
    """Largest absolute error of any element of PyTorch's own answer, times a margin."""
    pytorch_error: float
    pytorch: torch.Tensor | None = None
    """PyTorch's answer at the declared precision, for KernelBench's criterion."""
    bias_budget: float = float("inf")
    """Largest error that all elements may share (see `bias`)."""

    @property
    def exact(self) -> bool:
        return not (self.dtype.is_floating_point or self.dtype.is_complex)


@dataclass(frozen=True)
class Comparison:
    """One leaf compared."""

    error: float
    max_abs: float
    findings: tuple[Finding, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.findings


def relative_error(got: torch.Tensor, expected: torch.Tensor) -> float:
    """||got - expected|| / ||expected|| over elements where `expected` is finite; fp64."""
    finite = torch.isfinite(expected)
    if not bool(finite.all()):
        got, expected = got[finite], expected[finite]
    norm = float(torch.linalg.vector_norm(expected))
    difference = float(torch.linalg.vector_norm(got.to(expected.dtype) - expected))
    if norm == 0.0:
        return 0.0 if difference == 0.0 else float("inf")
    return difference / norm


def bias(got: torch.Tensor, expected: torch.Tensor) -> float:
    """The error that all elements share, relative: a common offset over the rms of `expected`, or a common factor
    minus one, whichever is larger; over elements where `expected` is finite; fp64."""
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


def compare(
    got: Any,
    leaf: Leaf,
    *,
    where: str,
    precision: str,
    emulated_error: Callable[[Emulation], float | None],
    source: str = "",
) -> Comparison:
    """Compare one leaf.

    Args:
        got: what the candidate returned for this leaf.
        where: name of leaf and shape, for messages.
        precision: the task's policy, for messages.
        emulated_error: error PyTorch makes when its arithmetic is degraded, to recognise the same in the candidate;
            only asked after a failure.
        source: of the candidate; bfloat16 and float16 are blamed only where it names them.
    """
    shape_or_type = _form(got, leaf, where)
    if shape_or_type is not None:
        return Comparison(float("inf"), float("inf"), (shape_or_type,))
    if leaf.exact:
        return _compare_exact(got, leaf, where)
    expected = leaf.expected
    wide = got.to(expected.dtype)
    strange = ~torch.isfinite(wide) & torch.isfinite(expected) | _differing_infinities(wide, expected)
    if bool(strange.any()):
        return Comparison(float("inf"), float("inf"), (_not_a_number(got, strange, expected, where),))
    difference = torch.where(torch.isfinite(expected), (wide - expected).abs(), 0.0)
    max_abs = float(difference.max()) if difference.numel() else 0.0
    error = relative_error(wide, expected)
    finite = torch.where(torch.isfinite(expected), expected.abs(), 0.0)
    rms = float(finite.square().mean().sqrt()) if finite.numel() else 0.0
    wrong = difference > leaf.slack + 8 * leaf.budget * (finite + rms)
    if error <= leaf.budget and not bool(wrong.any()):
        shared = bias(wide, expected)
        if shared <= leaf.bias_budget:
            return Comparison(error, max_abs)
        return Comparison(error, max_abs, (_biased(wide, expected, shared, leaf, where),))
    if leaf.budget == 0.0 and error < 0.1 and not _tail(wrong):
        return Comparison(error, max_abs, (_inexact(difference, got, expected, where),))
    finding = (
        None
        if _pattern(got, expected)
        else _degraded(error, leaf, wrong, where, precision, emulated_error, narrows=bool(NARROW.search(source)))
    )
    if finding is None:
        finding = _wrong(got, expected, difference, wrong, error, leaf, where)
    return Comparison(error, max_abs, (finding,))


# --------------------------------------------------------------------------------------------------- findings


def _form(got: Any, leaf: Leaf, where: str) -> Finding | None:
    if not isinstance(got, torch.Tensor):
        return Finding(kind="wrong_structure", message=f"a tensor was expected, got {describe(got)}", where=where)
    if got.shape != leaf.expected.shape:
        return Finding(
            kind="wrong_shape",
            message=f"shape {list(got.shape)} where the reference has {list(leaf.expected.shape)}",
            where=where,
        )
    if got.dtype != leaf.dtype:
        return Finding(
            kind="wrong_dtype",
            message=f"dtype {dtype_name(got)} where the reference has {str(leaf.dtype).removeprefix('torch.')}",
            where=where,
            cure="allocate the output with the reference's dtype (torch.empty_like of an input, usually)",
        )
    return None


def _compare_exact(got: torch.Tensor, leaf: Leaf, where: str) -> Comparison:
    wrong = got != leaf.expected
    share = float(wrong.double().mean()) if wrong.numel() else 0.0
    largest = float((got.double() - leaf.expected.double()).abs().max()) if wrong.numel() else 0.0
    if share <= leaf.budget:
        return Comparison(share, largest)
    at = tuple(int(i) for i in wrong.nonzero()[0])
    message = (
        f"{int(wrong.sum())} of {wrong.numel()} elements differ; first at {list(at)}: "
        f"got {got[at].item()}, expected {leaf.expected[at].item()}{_tail(wrong)}"
    )
    return Comparison(share, largest, (Finding(kind="wrong_values", message=message, where=where),))


def _differing_infinities(got: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """Where the reference is infinite or NaN and the candidate is not the same."""
    if expected.is_complex():
        return ~torch.isfinite(expected) & torch.isfinite(got)
    return (torch.isnan(expected) & ~torch.isnan(got)) | (torch.isinf(expected) & (got != expected))


def _not_a_number(got: torch.Tensor, strange: torch.Tensor, expected: torch.Tensor, where: str) -> Finding:
    unwritten = poisoned(got) & strange
    count = int(unwritten.sum())
    kind: FindingKind = "non_finite"
    if count:
        at = tuple(int(i) for i in unwritten.nonzero()[0])
        return Finding(
            kind="unwritten_output",
            message=f"{count} of {got.numel()} elements were never written (or hold undefined values), "
            f"first at {list(at)}{_tail(unwritten)}",
            where=where,
            cure="make the grid cover every element; a mask must be false only outside of the tensor",
        )
    at = tuple(int(i) for i in strange.nonzero()[0])
    return Finding(
        kind=kind,
        message=f"{int(strange.sum())} of {got.numel()} elements are not finite as the reference's are; first at "
        f"{list(at)}: got {_show(got[at])}, expected {_show(expected[at])}{_tail(strange)}",
        where=where,
        cure="look for a masked load without `other`, exp of a large number, division by zero, or an empty row",
    )


def _inexact(difference: torch.Tensor, got: torch.Tensor, expected: torch.Tensor, where: str) -> Finding:
    """Small integers in, whose sums of products float32 holds exactly, and yet another answer out."""
    worst = tuple(int(i) for i in torch.unravel_index(difference.argmax(), difference.shape))
    return Finding(
        kind="precision_loss",
        message=f"{int((difference > 0).sum())} of {got.numel()} elements are not exact where float32 (and TF32) "
        f"arithmetic is: worst at {list(worst)}: got {_show(got[worst])}, expected {_show(expected[worst])}",
        where=where,
        cure="an accumulator in float16 or bfloat16, operands cast to them, or a term lost or counted twice; "
        "accumulate in float32",
    )


def _degraded(
    error: float,
    leaf: Leaf,
    wrong: torch.Tensor,
    where: str,
    precision: str,
    emulated_error: Callable[[Emulation], float | None],
    *,
    narrows: bool,
) -> Finding | None:
    """The error of a known coarser arithmetic, spread over the whole tensor, is a matter of precision."""
    if precision not in ("ieee", "tf32") or leaf.dtype != torch.float32 or error > 0.1:
        return None
    over = f"relative error {error:.1e}, budget {leaf.budget:.1e} at precision {precision}"
    truncated, bf16 = emulated_error("truncated"), emulated_error("bf16")
    if precision == "tf32" and truncated is not None and 0.6 * truncated <= error <= 1.6 * truncated:
        return Finding(
            kind="tf32_truncation",
            message=f"{over}: what a plain fp32 tl.dot makes, which drops the low mantissa bits of its operands "
            f"({truncated:.1e} when emulated) where PyTorch rounds them",
            where=where,
            cure="round every operand of every tl.dot: x = tl.inline_asm_elementwise('cvt.rna.tf32.f32 $0, $1;', "
            "'=r,r', [x], dtype=tl.float32, is_pure=True, pack=1)",
        )
    if precision == "ieee" and truncated is not None and 0.2 * truncated <= error <= 1.6 * truncated:
        return Finding(
            kind="precision_loss",
            message=f"{over}: the error of TF32 products ({truncated:.1e} when emulated)",
            where=where,
            cure='pass input_precision="ieee" to tl.dot, whose default for fp32 is TF32',
        )
    if narrows and bf16 is not None and 0.05 * bf16 <= error <= 3 * bf16 and _spread_out(wrong, error, leaf):
        return Finding(
            kind="precision_loss",
            message=f"{over}: of the size that bfloat16 or float16 arithmetic makes ({bf16:.1e} when emulated)",
            where=where,
            cure="keep values in float32: no cast to bfloat16 or float16, accumulate in float32",
        )
    return None


def _biased(got: torch.Tensor, expected: torch.Tensor, shared: float, leaf: Leaf, where: str) -> Finding:
    """Within the budget for noise, but not noise."""
    return Finding(
        kind="wrong_values",
        message=f"all elements share an error of {shared:.1e} where rounding leaves {leaf.bias_budget:.1e} at most"
        f"{_pattern(got, expected, least=leaf.bias_budget / 2, within=leaf.budget)}",
        where=where,
        cure="no rounding does this: look for a slightly wrong constant, a truncating cast, or a biased approximation",
    )


def _spread_out(wrong: torch.Tensor, error: float, leaf: Leaf) -> bool:
    """Degraded arithmetic touches every element a little; a wrong formula or mask touches some a lot."""
    share = float(wrong.double().mean()) if wrong.numel() else 0.0
    return share > 0.2 or (share == 0.0 and error > leaf.budget)


def _wrong(
    got: torch.Tensor,
    expected: torch.Tensor,
    difference: torch.Tensor,
    wrong: torch.Tensor,
    error: float,
    leaf: Leaf,
    where: str,
) -> Finding:
    worst = tuple(int(i) for i in torch.unravel_index(difference.argmax(), difference.shape))
    count = int(wrong.sum())
    share = f"{count} of {got.numel()} elements are off" if count else "every element is slightly off"
    return Finding(
        kind="wrong_values",
        message=f"relative error {error:.2e}, budget {leaf.budget:.1e}; {share}; worst at {list(worst)}: "
        f"got {_show(got[worst])}, expected {_show(expected[worst])}{_tail(wrong)}{_pattern(got, expected)}",
        where=where,
        cure="look at the mask and block bounds of that dimension" if _tail(wrong) else SUSPECTS,
    )


def _tail(wrong: torch.Tensor) -> str:
    """Whether all wrong elements lie at the end of one dimension: the mark of a wrong mask or grid."""
    if wrong.dim() == 0 or not bool(wrong.any()) or bool(wrong.all()):
        return ""
    index = wrong.nonzero()
    for dim in range(wrong.dim()):
        size, first = wrong.shape[dim], int(index[:, dim].min())
        if size > 1 and first > 0:
            return f"; all at index >= {first} of dimension {dim} (size {size})"
    return ""


def _pattern(got: torch.Tensor, expected: torch.Tensor, *, least: float = 1e-3, within: float = 1e-4) -> str:
    """A constant factor or offset between the two, everywhere or along one dimension, where there is one.

    Args:
        got: the candidate's leaf.
        expected: the reference's.
        least: the smallest deviation of a factor from 1 to speak of.
        within: how exactly, in relative L2, the pattern must explain the difference.
    """
    if expected.is_complex() or expected.numel() < 8:
        return ""
    g, e = got.double(), expected.double()
    keep = torch.isfinite(e)
    g, e = torch.where(keep, g, 0.0), torch.where(keep, e, 0.0)
    if float(g.abs().max()) == 0.0:
        return "; got is zero everywhere"
    power = float((e * e).sum())
    if power > 0:
        factor = float((g * e).sum()) / power
        if abs(factor - 1) > least and relative_error(g, factor * e) < within and factor != 0:
            return f"; got is {factor:.{4 if abs(factor - 1) > 1e-3 else 7}g} times the expected everywhere"
    difference = torch.where(keep, g - e, 0.0)
    offset = float(difference.sum() / keep.sum())
    if abs(offset) > 0 and float(torch.where(keep, difference - offset, 0.0).abs().max()) < 1e-4 * abs(offset):
        return f"; got is the expected {offset:+.4g} everywhere"
    return _pattern_along(g, e, least=least, within=within)


def _pattern_along(got: torch.Tensor, expected: torch.Tensor, *, least: float, within: float) -> str:
    """A factor or an offset that one dimension decides: a weight, a scale or a bias left out."""
    for dim in range(expected.dim()) if expected.dim() > 1 else ():
        size, others = expected.shape[dim], tuple(d for d in range(expected.dim()) if d != dim)
        if size < 2 or expected.numel() // size < 4:
            continue
        power = (expected * expected).sum(others, keepdim=True)
        factor = (got * expected).sum(others, keepdim=True) / power.clamp_min(torch.finfo(torch.float64).tiny)
        if relative_error(factor * expected, got) < within and float((factor - 1).abs().max()) > least:
            low, high = float(factor.min()), float(factor.max())
            return f"; got is the expected times a factor for each index of dimension {dim} ({low:.4g} to {high:.4g})"
        offset = (got - expected).mean(others, keepdim=True)
        if relative_error(expected + offset, got) < within and float(offset.abs().max()) > 0:
            low, high = float(offset.min()), float(offset.max())
            return f"; got is the expected plus an offset for each index of dimension {dim} ({low:.4g} to {high:.4g})"
    return ""


def _show(element: torch.Tensor) -> str:
    value = element.item()
    return f"{value:.6g}" if isinstance(value, float) else str(value)
