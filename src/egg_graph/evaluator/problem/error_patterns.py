"""Simple patterns in a wrong leaf, in words for a finding: where the errors lie, and which factor or offset explains
them."""

from __future__ import annotations

import torch

from egg_graph.evaluator.problem.error_sums import relative_error


def describe_tail(wrong: torch.Tensor) -> str:
    """Say that all wrong elements lie at the end of one dimension, which a wrong mask or grid causes; empty if not.

    Some element is wrong at every index of such an end. Where indices among the wrong ones hold right elements alone,
    the errors are scattered, and where they begin is an accident.

    Args:
        wrong: boolean mask of the wrong elements.
    """
    if wrong.dim() == 0 or not bool(wrong.any()) or bool(wrong.all()):
        return ""
    index = wrong.nonzero()
    for dim in range(wrong.dim()):
        size, at = wrong.shape[dim], torch.unique(index[:, dim])
        first = int(at[0])
        if size > 1 and first > 0 and len(at) == size - first:
            return f"; all at index >= {first} of dimension {dim} (size {size})"
    return ""


def describe_scaling(got: torch.Tensor, expected: torch.Tensor, *, least: float = 1e-3, within: float = 1e-4) -> str:
    """Name a factor or an offset between two leaves, everywhere or per index of one dimension; empty if there is none.

    Args:
        got: the candidate's leaf.
        expected: the reference's leaf.
        least: smallest deviation of a factor from 1 that is reported.
        within: largest relative L2 error that the pattern may leave unexplained.
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
        return f"; got is the expected value {'plus' if offset > 0 else 'minus'} {abs(offset):.4g} everywhere"
    return _describe_scaling_per_index(g, e, least=least, within=within)


def _describe_scaling_per_index(got: torch.Tensor, expected: torch.Tensor, *, least: float, within: float) -> str:
    """Name a factor or an offset that depends on the index of one dimension: a weight, scale or bias is missing."""
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
