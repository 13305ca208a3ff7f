"""Look for ties among the inputs of a case, by drawing them several times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.reference import Reference
from egg_graph.evaluator.problem.ties import Ties, find_ties, ties_within

DRAWS = 3
"""Draws in which elements have to be equal."""
MOST_ELEMENTS = 1 << 22
"""Inputs that hold more elements than this are drawn once, and no ties are looked for in a tensor of more."""


def ties_of(case: Case, reference: Reference) -> list[Ties]:
    """The ties of every tensor among a case's inputs, in order; none where drawing several times takes too long."""
    if case.ties is None:
        sizes = [x.numel() for x in _tensors(case.inputs)]
        case.ties = [None] * len(sizes) if _too_large(sizes) else _find_ties(reference, case.seed)
    return case.ties


def ties_of_drawn(case: Case, reference: Reference, drawn: Sequence[Any]) -> list[Ties]:
    """The ties of every tensor among inputs that were drawn for a case.

    Those of large inputs come from this one draw: a table beside a large tensor, whose halves are equal, has them too.
    """
    tensors = _tensors(drawn)
    if not _too_large([x.numel() for x in tensors]):
        return ties_of(case, reference)
    return [ties_within(x) if x.numel() <= MOST_ELEMENTS else None for x in tensors]


def _tensors(inputs: Sequence[Any]) -> list[torch.Tensor]:
    return [x for x in tree_leaves(list(inputs)) if isinstance(x, torch.Tensor)]


def _too_large(sizes: Sequence[int]) -> bool:
    return sum(sizes) > MOST_ELEMENTS


def tied_positions(case: Case, reference: Reference) -> set[int]:
    """Positions of the arguments of forward that hold a tensor with ties."""
    ties = iter(ties_of(case, reference))
    tied = set()
    for position, value in enumerate(case.inputs):
        inside = [next(ties) for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]
        tied |= {position} if any(found is not None for found in inside) else set()
    return tied


def _find_ties(reference: Reference, seed: int) -> list[Ties]:
    draws = [_tensors(reference.inputs(seed + number)) for number in range(DRAWS)]
    return [find_ties(leaves) for leaves in zip(*draws, strict=True)]
