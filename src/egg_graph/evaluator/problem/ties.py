"""Elements of an input that are equal in every draw, as `cos[:half]` and `cos[half:]` of a rotary table are.

A kernel may rely on that: it reads one of them. What changes inputs keeps it. It is seen in several draws, since two
elements of one may be equal by chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import torch

FEW_VALUES = 256
"""A tensor that is drawn from at most this many values has ties by chance."""
SAMPLE = 1 << 16

Ties: TypeAlias = "torch.Tensor | None"
"""For each element in order, the place of the first that is always equal to it; None where there are no ties."""


def keep_ties(x: torch.Tensor, ties: Ties) -> torch.Tensor:
    """Give every element the value of the first one that it is tied to; the strides stay."""
    if ties is None or ties.numel() != x.numel():
        return x
    return torch.empty_like(x).copy_(x.reshape(-1)[ties.to(x.device)].view(x.shape))


def find_ties(draws: Sequence[torch.Tensor]) -> Ties:
    """The ties of one input, by several draws of it."""
    first = draws[0]
    if not first.is_floating_point() or not first.numel():
        return None
    if any(x.shape != first.shape for x in draws):
        return None
    same = all(torch.equal(x, first) for x in draws)
    if not same and _few_values(first):
        return None
    return _classes(draws)


def ties_within(x: torch.Tensor) -> Ties:
    """The ties of one input by one draw of it, those by chance included; none of a type in which chance makes most."""
    if x.dtype not in (torch.float32, torch.float64) or not x.numel() or _few_values(x):
        return None
    return _classes([x])


def _few_values(x: torch.Tensor) -> bool:
    return x.reshape(-1)[:SAMPLE].unique().numel() <= FEW_VALUES


def _classes(draws: Sequence[torch.Tensor]) -> Ties:
    """For each element the place of the first that is equal to it in every draw; None where all differ."""
    first = draws[0]
    key = torch.zeros(first.numel(), dtype=torch.int64, device=first.device)
    for x in draws:
        key = (key * 0x5851F42D4C957F2D) ^ x.float().reshape(-1).view(torch.int32).long()
    _, classes = key.unique(return_inverse=True)
    count = int(classes.max()) + 1
    if count == key.numel():
        return None
    places = torch.arange(key.numel(), device=key.device)
    begins = torch.full((count,), key.numel(), dtype=torch.int64, device=key.device)
    return begins.scatter_reduce(0, classes, places, "amin")[classes]
