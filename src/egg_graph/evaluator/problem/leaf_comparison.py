"""Compare one leaf of a candidate's answer with the expected values, and say what is wrong with it.

Three bounds apply. The relative L2 error of the leaf must stay within its budget. No single element may be much further
off than PyTorch's worst element, so that a few wrong elements cannot hide in a large tensor. The error that all
elements share must stay within PyTorch's own, so that a small factor or offset cannot hide in the noise of rounding.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch

from egg_graph.evaluator.problem.error_patterns import describe_scaling, describe_tail
from egg_graph.evaluator.problem.error_sums import ErrorSums, all_within, pieces, sum_errors
from egg_graph.evaluator.problem.expected_leaf import ExpectedLeaf
from egg_graph.evaluator.problem.truncation import Emulated, is_truncated, truncation
from egg_graph.evaluator.wire.exchange import describe, dtype_name
from egg_graph.evaluator.wire.poison import poisoned
from egg_graph.schema import FP32, Finding

NARROW = re.compile(r"bfloat16|float16|bf16|fp16|\.half\(")
"""Matches a source that names a type narrower than fp32."""
SUSPECTS = "suspect padding lanes in a reduction, a missing mask, or a wrong constant"

Emulation = Literal["tf32", "truncated", "bf16"]
"""A coarser arithmetic that PyTorch can emulate: TF32 products of rounded or truncated operands, or bfloat16 alone."""
EmulatedError = Callable[[Emulation], float | None]
"""Returns the relative error that PyTorch makes under an emulation; None if the reference cannot run under it."""


@dataclass(frozen=True)
class LeafComparison:
    """The errors of one leaf, and what is wrong with it."""

    error: float
    """Relative L2 error; for integers, the share of elements that differ."""
    max_abs: float
    """Largest absolute error of one element."""
    findings: tuple[Finding, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong with the leaf."""
        return not self.findings


@dataclass(frozen=True)
class _Errors:
    """The errors of one leaf whose form and infinities are right."""

    got: torch.Tensor
    """The candidate's leaf as it was returned."""
    difference: torch.Tensor
    """Absolute error of each element; 0 where the expected value is not finite."""
    wrong: torch.Tensor
    """Mask of elements that are further off than any element may be."""
    relative: float
    """Relative L2 error."""


def compare_leaf(
    got: Any,
    leaf: ExpectedLeaf,
    *,
    where: str,
    precision: str,
    emulated_error: EmulatedError,
    truncated: Emulated = lambda: None,
    source: str = "",
) -> LeafComparison:
    """Compare one leaf.

    Args:
        got: what the candidate returned for this leaf.
        leaf: what it must be.
        where: name of leaf and shape, for messages.
        precision: the task's policy, for messages.
        emulated_error: returns the error that PyTorch makes when its arithmetic is degraded, to recognise the same
            error in the candidate. It is called only after a failure.
        truncated: returns PyTorch's answer with operands truncated to TF32; likewise.
        source: the candidate's source. bfloat16 and float16 are blamed only if it names them.
    """
    wrong_form = _check_form(got, leaf, where)
    if wrong_form is not None:
        return LeafComparison(float("inf"), float("inf"), (wrong_form,))
    if leaf.exact:
        return _compare_exact(got, leaf, where)
    got, expected = leaf.settled(got), leaf.expected
    if _any_strange(got, expected):
        return LeafComparison(float("inf"), float("inf"), (_non_finite(got, _strange(got, expected), expected, where),))
    sums = sum_errors(got, expected)
    within = _within(got, leaf, sums)
    if within and sums.bias <= leaf.bias_budget:
        return LeafComparison(sums.relative, sums.largest)
    try:
        if precision == "tf32" and leaf.dtype == torch.float32 and is_truncated(got, sums.relative, truncated):
            finding = truncation(sums.relative, leaf, emulated_error("truncated"), where)
        elif within:
            finding = _biased(got.to(expected.dtype), expected, sums.bias, leaf, where)
        else:
            errors = _measure_errors(got, sums, leaf)
            finding = _explain(errors, leaf, where, precision, emulated_error, source)
    except torch.OutOfMemoryError:  # wrong it is, whether or not there is memory to say how
        message = f"relative error {sums.relative:.2e}, budget {leaf.budget:.2e}; largest error {sums.largest:.3g}"
        finding = Finding(kind="wrong_values", message=message, where=where, cure=SUSPECTS)
    return LeafComparison(sums.relative, sums.largest, (finding,))


def is_right(got: Any, leaf: ExpectedLeaf) -> bool:
    """Whether `compare_leaf` finds nothing wrong; it takes less time and memory, for it does not ask what is wrong."""
    if _check_form(got, leaf, "") is not None:
        return False
    if leaf.exact:
        return leaf.share_of_wrong(got) <= leaf.budget
    got = leaf.settled(got)
    if _any_strange(got, leaf.expected):
        return False
    sums = sum_errors(got, leaf.expected)
    return _within(got, leaf, sums) and sums.bias <= leaf.bias_budget


def _any_strange(got: torch.Tensor, expected: torch.Tensor) -> bool:
    return any(bool(_strange(*piece).any()) for piece in pieces(got, expected))


def _within(got: torch.Tensor, leaf: ExpectedLeaf, sums: ErrorSums) -> bool:
    """Whether the relative error, and the error of every single element, are within what the leaf allows."""
    if not sums.relative <= leaf.budget:
        return False
    return all_within(got, leaf.expected, leaf.slack, 8 * leaf.budget, sums.rms)


def _measure_errors(got: torch.Tensor, sums: ErrorSums, leaf: ExpectedLeaf) -> _Errors:
    """The error of every element, to say where an answer is wrong; it takes several times the answer's memory."""
    finite = torch.isfinite(leaf.expected)
    difference = torch.where(finite, (got.to(leaf.expected.dtype) - leaf.expected).abs(), 0.0)
    size = torch.where(finite, leaf.expected.abs(), 0.0)
    wrong = difference > leaf.slack + 8 * leaf.budget * (size + sums.rms)
    return _Errors(got, difference, wrong, sums.relative)


def _explain(
    errors: _Errors, leaf: ExpectedLeaf, where: str, precision: str, emulated_error: EmulatedError, source: str
) -> Finding:
    """The most specific finding for a leaf that exceeds its budget."""
    if leaf.budget == 0.0 and errors.relative < 0.1 and not describe_tail(errors.wrong):
        return _inexact(errors, leaf, where)
    finding = None
    if not describe_scaling(errors.got, leaf.expected):
        narrows = bool(NARROW.search(source))
        finding = _degraded(errors, leaf, where, precision, emulated_error, narrows=narrows)
    return finding or _wrong_values(errors, leaf, where)


def _check_form(got: Any, leaf: ExpectedLeaf, where: str) -> Finding | None:
    """What is wrong with the type, shape or dtype of a leaf; None if nothing is."""
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


def _compare_exact(got: torch.Tensor, leaf: ExpectedLeaf, where: str) -> LeafComparison:
    """Compare integers or booleans element by element."""
    expected = leaf.expected
    share = leaf.share_of_wrong(got)
    largest = max((float((a.double() - b.double()).abs().max()) for a, b in pieces(got, expected)), default=0.0)
    if share <= leaf.budget:
        return LeafComparison(share, largest)
    wrong = leaf.wrong_integers(got)
    at = _first(wrong)
    message = (
        f"{int(wrong.sum())} of {wrong.numel()} elements differ; first at {list(at)}: "
        f"got {got[at].item()}, expected {expected[at].item()}{describe_tail(wrong)}"
    )
    return LeafComparison(share, largest, (Finding(kind="wrong_values", message=message, where=where),))


def _first(mask: torch.Tensor) -> tuple[int, ...]:
    """Index of the first true element; `nonzero` takes no more than 2^31 elements on a GPU."""
    place = mask.reshape(-1).view(torch.uint8).argmax()
    return tuple(int(i) for i in torch.unravel_index(place, mask.shape))


def _strange(got: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """Mask of elements that are not finite as the expected ones are."""
    return ~torch.isfinite(got) & torch.isfinite(expected) | _differing_infinities(got, expected)


def _differing_infinities(got: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """Mask of elements where the reference is infinite or NaN and the candidate is not the same."""
    if expected.is_complex():
        return ~torch.isfinite(expected) & torch.isfinite(got)
    return (torch.isnan(expected) & ~torch.isnan(got)) | (torch.isinf(expected) & (got != expected))


def _non_finite(got: torch.Tensor, strange: torch.Tensor, expected: torch.Tensor, where: str) -> Finding:
    """The finding for NaN and infinities: elements that were never written, or wrong arithmetic."""
    unwritten = poisoned(got) & strange
    if count := int(unwritten.sum()):
        at = _first(unwritten)
        return Finding(
            kind="unwritten_output",
            message=f"{count} of {got.numel()} elements were never written (or hold undefined values), "
            f"first at {list(at)}{describe_tail(unwritten)}",
            where=where,
            cure="make the grid cover every element; a mask must be false only outside of the tensor",
        )
    at = _first(strange)
    return Finding(
        kind="non_finite",
        message=f"{int(strange.sum())} of {got.numel()} elements are not finite as the reference's are; first at "
        f"{list(at)}: got {_show(got[at])}, expected {_show(expected[at])}{describe_tail(strange)}",
        where=where,
        cure="look for a masked load without `other`, exp of a large number, division by zero, or an empty row",
    )


def _inexact(errors: _Errors, leaf: ExpectedLeaf, where: str) -> Finding:
    """The finding for inexact results of small integers, whose sums of products float32 holds exactly."""
    got, worst = errors.got, _worst(errors)
    return Finding(
        kind="precision_loss",
        message=f"{int((errors.difference > 0).sum())} of {got.numel()} elements are not exact where float32 (and "
        f"TF32) arithmetic is: worst at {list(worst)}: got {_show(got[worst])}, expected {_show(leaf.expected[worst])}",
        where=where,
        cure="an accumulator in float16 or bfloat16, operands cast to them, or a term lost or counted twice; "
        "accumulate in float32",
    )


def _degraded(
    errors: _Errors, leaf: ExpectedLeaf, where: str, precision: str, emulated_error: EmulatedError, *, narrows: bool
) -> Finding | None:
    """The finding for an error of the size that a known coarser arithmetic makes; None if it is of another size."""
    error = errors.relative
    if precision not in FP32 or leaf.dtype != torch.float32 or error > 0.1:
        return None
    over = f"relative error {error:.2e}, budget {leaf.budget:.2e} at precision {precision}"
    truncated, bf16 = emulated_error("truncated"), emulated_error("bf16")
    if precision == "tf32" and truncated is not None and 0.6 * truncated <= error <= 1.6 * truncated:
        return truncation(error, leaf, truncated, where)
    if precision == "ieee" and truncated is not None and 0.2 * truncated <= error <= 1.6 * truncated:
        return Finding(
            kind="precision_loss",
            message=f"{over}: the error of TF32 products ({truncated:.1e} when emulated)",
            where=where,
            cure='pass input_precision="ieee" to tl.dot, whose default for fp32 is TF32',
        )
    if narrows and bf16 is not None and 0.05 * bf16 <= error <= 3 * bf16 and _is_spread_out(errors, leaf):
        return Finding(
            kind="precision_loss",
            message=f"{over}: of the size that bfloat16 or float16 arithmetic makes ({bf16:.1e} when emulated)",
            where=where,
            cure="keep values in float32: no cast to bfloat16 or float16, accumulate in float32",
        )
    return None


def _is_spread_out(errors: _Errors, leaf: ExpectedLeaf) -> bool:
    """Whether many elements are a little off, as under degraded arithmetic, and not some elements a lot."""
    share = float(errors.wrong.double().mean()) if errors.wrong.numel() else 0.0
    return share > 0.2 or (share == 0.0 and errors.relative > leaf.budget)


def _biased(got: torch.Tensor, expected: torch.Tensor, shared: float, leaf: ExpectedLeaf, where: str) -> Finding:
    """The finding for an error within the budget that all elements share, which rounding noise does not do."""
    return Finding(
        kind="wrong_values",
        message=f"all elements share an error of {shared:.1e} where rounding leaves {leaf.bias_budget:.1e} at most"
        f"{describe_scaling(got, expected, least=leaf.bias_budget / 2, within=leaf.budget)}",
        where=where,
        cure="no rounding does this: look for a slightly wrong constant, a truncating cast, or a biased approximation",
    )


def _wrong_values(errors: _Errors, leaf: ExpectedLeaf, where: str) -> Finding:
    """The finding for wrong values that nothing more specific explains."""
    got, expected, worst = errors.got, leaf.expected, _worst(errors)
    count, tail = int(errors.wrong.sum()), describe_tail(errors.wrong)
    share = f"{count} of {got.numel()} elements are off" if count else "every element is slightly off"
    return Finding(
        kind="wrong_values",
        message=f"relative error {errors.relative:.2e}, budget {leaf.budget:.2e}; {share}; worst at {list(worst)}: "
        f"got {_show(got[worst])}, expected {_show(expected[worst])}{tail}{describe_scaling(got, expected)}",
        where=where,
        cure="look at the mask and block bounds of that dimension" if tail else SUSPECTS,
    )


def _worst(errors: _Errors) -> tuple[int, ...]:
    """Index of the element with the largest absolute error."""
    return tuple(int(i) for i in torch.unravel_index(errors.difference.argmax(), errors.difference.shape))


def _show(element: torch.Tensor) -> str:
    value = element.item()
    return f"{value:.6g}" if isinstance(value, float) else str(value)
