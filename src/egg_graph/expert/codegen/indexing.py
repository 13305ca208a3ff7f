"""How a kernel addresses tensors: flat indices, and how an operand's shape broadcasts to another."""

from dataclasses import dataclass

Vector = tuple[int, ...]
"""A size, one entry per capture."""


class Unfusable(Exception):
    """These nodes cannot become one kernel of this kind; one line why."""


@dataclass(frozen=True)
class Index:
    """Which elements of a tensor a tile touches: kernel text of their flat index, and the mask of those that exist."""

    text: str
    mask: str = ""
    tile: bool = False
    """Whether it moves with the loop over a tile (a loop-invariant value is computed before the loop)."""


SCALAR = Index("0")
Run = tuple[bool, Vector]
"""Neighbouring dimensions that an operand all has, or all broadcasts, and their joint size in each capture."""


def runs(operand: tuple[Vector, ...], full: tuple[Vector, ...]) -> tuple[Run, ...]:
    """How one shape broadcasts to another, in runs of dimensions; those of size 1 in every capture are dropped.

    Raises:
        Unfusable: if the captures disagree about what is broadcast.
    """
    rank, own_rank = len(full[0]), len(operand[0])
    found: list[Run] = []
    for dim in range(rank):
        size = tuple(s[dim] for s in full)
        if set(size) == {1}:
            continue
        own_dim = dim - (rank - own_rank)
        own = tuple(s[own_dim] for s in operand) if own_dim >= 0 else (1,) * len(size)
        if own != size and set(own) != {1}:
            raise Unfusable(f"shapes {operand} do not broadcast to {full} in the same way in every capture")
        found.append((own == size, size))
    return merged(found)


def merged(parts: list[Run]) -> tuple[Run, ...]:
    """Join neighbours of the same kind; drop those of size 1."""
    result: list[Run] = []
    for kept, size in parts:
        if set(size) == {1}:
            continue
        if result and result[-1][0] == kept:
            result[-1] = (kept, tuple(a * b for a, b in zip(result[-1][1], size, strict=True)))
        else:
            result.append((kept, size))
    return tuple(result)
