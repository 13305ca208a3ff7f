"""Shapes in which one size after the other is as large as in full, and all others are small.

A kernel that does something else above a threshold (a loop that ends early, a grid that is capped, a branch for many
rows) is right at every small shape. Sizes grow here together where they may, since each shape costs a run.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from egg_graph.evaluator.problem.shapes import HEAD_WIDTH, ShapeSearch
from egg_graph.schema import BadInput

MAX_ELEMENTS, MAX_TOTAL, MAX_FLOPS = 1 << 20, 3 << 20, 1.5e8
"""Of any one tensor; of inputs, parameters and outputs together; of products: what an interpreter can chew once."""
MAX_ROWS = 2048
"""Of what programs are counted by, one each: more of them take too long one after the other."""
LEAST_GROWTH = 1.5
"""A size that can grow by less than this over what was tried, and not to its full value, is left where it is."""
SMALL = (48, 32, 16)
LEADING = (2, 1)
MOST_SHAPES = 3
FILLS = 12
"""Values that are tried where other sizes follow, from the full one on, each half of the one before."""


@dataclass
class LongShapes:
    """What was found."""

    shapes: list[dict[str, int]] = field(default_factory=list)
    """Overrides."""
    short: dict[str, int] = field(default_factory=dict)
    """Integers of the reference that no shape has at their full value, and the largest that one has."""


def choose_long_shapes(source: str, *tried: dict[str, int]) -> LongShapes:
    """Overrides for few shapes in which, between them, sizes are as large as in full or as an interpreter can bear.

    Args:
        source: of the reference.
        tried: overrides that are checked anyway.

    Raises:
        BadInput: if the reference does not run at its own shape.
    """
    search = ShapeSearch(source)
    if search.at_full is None:
        raise BadInput(f"reference: it does not run at its own shape: {search.last_failure}")
    largest = {name: max(overrides.get(name, full) for overrides in tried) for name, full in search.full.items()}
    found = LongShapes()
    wanted = [name for name in sorted(search.full, key=lambda name: -search.full[name]) if _matters(search, name)]
    for name in wanted:
        if largest[name] >= search.full[name]:
            continue
        grown = _grown(search, name, largest[name], found.shapes[-1] if found.shapes else None, tried[0])
        if grown is not None:
            merged, overrides = grown
            found.shapes = [*(found.shapes[:-1] if merged else found.shapes), overrides]
            largest = {other: max(size, overrides.get(other, search.full[other])) for other, size in largest.items()}
        if len(found.shapes) == MOST_SHAPES:
            break
    found.shapes = [_filled(search, overrides) for overrides in found.shapes]
    found.short = {name: largest[name] for name in wanted if largest[name] < search.full[name]}
    return found


def _filled(search: ShapeSearch, overrides: dict[str, int]) -> dict[str, int]:
    """The same with the other sizes as large as may be: a branch may ask for two of them at once."""
    filled = dict(overrides)
    for name in sorted(overrides, key=lambda name: search.full[name]):
        values = [_most(search, name) >> halvings for halvings in range(FILLS)]
        larger = ({**filled, name: value} for value in values if value > filled[name])
        filled = next((trial for trial in larger if _bearable(search, trial)), filled)
    filled = {name: size for name, size in filled.items() if size != search.full[name]}
    return filled if search.runs(filled) else overrides


def _matters(search: ShapeSearch, name: str) -> bool:
    return name in search.wide or name in search.leading


def _grown(
    search: ShapeSearch, name: str, known: int, last: dict[str, int] | None, shrunk: dict[str, int]
) -> tuple[bool, dict[str, int]] | None:
    """Whether the last shape could take it too, and the shape; None where the size cannot grow."""
    full, most = search.full[name], _most(search, name)
    equals = [other for other in search.full if search.full[other] == full]
    values = [most >> halvings for halvings in range(most.bit_length())]
    for value in (value for value in values if known < value == full or value >= LEAST_GROWTH * known):
        for base, group in itertools.product(_bases(search, last, shrunk), ([name], equals)):
            if base is last and group is equals:
                continue  # that could take from another what it has
            overrides = {**base, **dict.fromkeys(group, value)}
            overrides = {other: size for other, size in overrides.items() if size != search.full[other]}
            if _good(search, overrides):
                return base is last, overrides
    return None


def _most(search: ShapeSearch, name: str) -> int:
    """As large as a size may grow. Rows may have a program each; a single size is of elements."""
    alone = len(search.full) == 1
    return search.full[name] if alone or name not in search.leading else min(search.full[name], MAX_ROWS)


def _bases(search: ShapeSearch, last: dict[str, int] | None, shrunk: dict[str, int]) -> list[dict[str, int]]:
    """Small shapes one of whose sizes may grow, the last long one first."""
    small = [_small(search, leading) for leading in LEADING]
    return [*([last] if last is not None else []), *small, shrunk]


def _small(search: ShapeSearch, leading: int) -> dict[str, int]:
    cycle = itertools.cycle(SMALL)
    overrides = {name: min(search.full[name], leading) for name in search.leading}
    for name in search.wide:
        value = next(cycle)
        value = 1 << (value.bit_length() - 1) if HEAD_WIDTH.fullmatch(name.lower()) else value
        overrides[name] = min(search.full[name], value)
    return overrides


def _good(search: ShapeSearch, overrides: dict[str, int]) -> bool:
    return _bearable(search, overrides) and search.runs(overrides)


def _bearable(search: ShapeSearch, overrides: dict[str, int]) -> bool:
    size = search.trial(overrides)
    if size is None:
        return False
    return size.largest <= MAX_ELEMENTS and size.elements <= MAX_TOTAL and size.flops <= MAX_FLOPS
