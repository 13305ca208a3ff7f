"""How a kernel addresses tensors: flat indices, and the broadcasting of one shape to another."""

from dataclasses import dataclass

Vector = tuple[int, ...]
"""A size with one entry per capture."""


class Unfusable(Exception):
    """These nodes cannot become one kernel of this kind; one line why."""


@dataclass(frozen=True)
class Index:
    """The elements of a tensor that a tile touches: kernel text of their flat index, and of the mask of valid ones."""

    text: str
    mask: str = ""
    tile: bool = False
    """Whether the index changes with the loop over tiles; other values are computed before the loop."""


SCALAR = Index("0")
"""The only element of a scalar."""
OFFSETS = Index("offsets", "mask", tile=True)
"""The elements of a flat tile."""
Run = tuple[bool, Vector]
"""Neighbouring dimensions, all of them the operand's own (True) or all broadcast, and their joint size per capture."""


def runs(operand: tuple[Vector, ...], full: tuple[Vector, ...]) -> tuple[Run, ...]:
    """Return how one shape broadcasts to another, in runs of dimensions; drop dimensions of size 1 in every capture.

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
    """Join neighbouring runs of the same kind; drop runs of size 1."""
    result: list[Run] = []
    for kept, size in parts:
        if set(size) == {1}:
            continue
        if result and result[-1][0] == kept:
            result[-1] = (kept, tuple(a * b for a, b in zip(result[-1][1], size, strict=True)))
        else:
            result.append((kept, size))
    return tuple(result)
