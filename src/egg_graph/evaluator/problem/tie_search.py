"""Look for ties among the inputs of a case, by drawing them several times."""

from __future__ import annotations

import torch
from torch.utils._pytree import tree_leaves

from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.reference import Reference
from egg_graph.evaluator.problem.ties import Ties, find_ties

DRAWS = 3
"""Draws in which elements have to be equal."""
MOST_ELEMENTS = 1 << 22
"""No ties are looked for where inputs hold more elements than this."""


def ties_of(case: Case, reference: Reference) -> list[Ties]:
    """The ties of every tensor among a case's inputs, in order; looked for once."""
    if case.ties is None:
        sizes = [x.numel() for x in tree_leaves(case.inputs) if isinstance(x, torch.Tensor)]
        too_large = sum(sizes) > MOST_ELEMENTS
        case.ties = [None] * len(sizes) if too_large else _find_ties(reference, case.seed)
    return case.ties


def tied_positions(case: Case, reference: Reference) -> set[int]:
    """Positions of the arguments of forward that hold a tensor with ties."""
    ties = iter(ties_of(case, reference))
    tied = set()
    for position, value in enumerate(case.inputs):
        inside = [next(ties) for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]
        tied |= {position} if any(found is not None for found in inside) else set()
    return tied


def _find_ties(reference: Reference, seed: int) -> list[Ties]:
    draws = [
        [x for x in tree_leaves(reference.inputs(seed + number)) if isinstance(x, torch.Tensor)]
        for number in range(DRAWS)
    ]
    return [find_ties(leaves) for leaves in zip(*draws, strict=True)]
