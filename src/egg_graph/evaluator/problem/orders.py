"""Numbers that stand in order: row pointers, offsets of experts, cumulative lengths of sequences, sorted keys.

A kernel may rely on the order, so what changes inputs keeps it.
"""

from __future__ import annotations

import torch


def is_ordered(x: torch.Tensor) -> bool:
    """Whether a tensor is one row of numbers that never fall, and not all the same."""
    if x.dim() != 1 or x.is_complex() or x.dtype == torch.bool or x.numel() < 2:
        return False
    return bool((x[1:] >= x[:-1]).all() & (x[0] < x[-1]))


def sorted_like(changed: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Return numbers that are to replace a tensor's, with its strides (if it is dense), and sorted if its own are."""
    return torch.empty_like(x).copy_(changed.sort().values if is_ordered(x) else changed)


def move_within_order(x: torch.Tensor, places: list[int], generator: torch.Generator) -> torch.Tensor:
    """Copy an ordered tensor and move a few elements between their neighbours; the first and the last one stay.

    Integers that are all different stay so. The largest step from one to the next stays the largest, for a kernel may
    be told it (the longest sequence); not where all steps are the same, as nothing could move then.

    Args:
        x: integers, as `is_ordered` has them.
        places: which elements move, as indices of any size; they are taken modulo the number of those that may.
        generator: draws where to.
    """
    values, steps = x.clone(), x.diff()
    least, largest = min(1, int(steps.min())), int(steps.max())
    if largest == int(steps.min()):
        largest *= 2
    for place in places if x.numel() > 2 else ():
        at = 1 + place % (x.numel() - 2)
        before, after = int(values[at - 1]), int(values[at + 1])
        low, high = max(before + least, after - largest), min(after - least, before + largest)
        values[at] = int(torch.randint(low, high + 1, (), generator=generator))
    return values
