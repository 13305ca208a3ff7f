"""Choose shapes in which one size after the other has its full value while all others are small.

A kernel that behaves differently above a threshold (a loop that ends early, a grid that is capped, a branch for many
rows) is right at every small shape. Several sizes grow in one shape where possible, since each shape costs a run.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from egg_graph.evaluator.problem.shapes import HEAD_WIDTH, ShapeSearch, search_shapes

MAX_ELEMENTS = 1 << 20
"""Largest number of elements of any one tensor that an interpreter can process once."""
MAX_TOTAL = 3 << 20
"""Largest number of elements of inputs, parameters and outputs together."""
MAX_FLOPS = 1.5e8
"""Largest number of flops of matrix products."""
MAX_ROWS = 2048
"""Largest number of rows: a kernel may run one program per row, and an interpreter runs them one after the other."""
LEAST_GROWTH = 1.5
"""Leave a size as it is if it can neither reach its full value nor grow by this factor over the sizes tried so far."""
SMALL = (48, 32, 16)
"""Sizes of the knobs that do not grow."""
LEADING = (2, 1)
"""Leading dimensions that are tried, in this order."""
MOST_SHAPES = 3
HALVINGS = 12
"""Number of values that are tried for the other sizes of a shape, from the full value on, each half of the last."""


@dataclass
class LongShapes:
    """The long shapes of a reference, and what they do not cover."""

    shapes: list[dict[str, int]] = field(default_factory=list)
    """Overrides of each shape."""
    not_full: dict[str, int] = field(default_factory=dict)
    """Integers of the reference that no shape has at their full value, with the largest value that one has."""


def choose_long_shapes(source: str, *tried: dict[str, int]) -> LongShapes:
    """Choose few shapes in which, between them, every size has its full value or the largest that is affordable.

    Args:
        source: the reference's source.
        tried: overrides of shapes that are checked anyway.

    Raises:
        BadInput: if the reference does not run at its own shape.
    """
    search = search_shapes(source)
    largest = {name: max(overrides.get(name, full) for overrides in tried) for name, full in search.full.items()}
    found = LongShapes()
    wanted = [name for name in sorted(search.full, key=lambda name: -search.full[name]) if _is_size(search, name)]
    for name in wanted:
        if largest[name] >= search.full[name]:
            continue
        grown = _grow(search, name, largest[name], found.shapes[-1] if found.shapes else None, tried[0])
        if grown is not None:
            merged, overrides = grown
            found.shapes = [*(found.shapes[:-1] if merged else found.shapes), overrides]
            largest = {other: max(size, overrides.get(other, search.full[other])) for other, size in largest.items()}
        if len(found.shapes) == MOST_SHAPES:
            break
    found.shapes = [_grow_others(search, overrides) for overrides in found.shapes]
    found.not_full = {name: largest[name] for name in wanted if largest[name] < search.full[name]}
    return found


def _is_size(search: ShapeSearch, name: str) -> bool:
    return name in search.wide or name in search.leading


def _grow(
    search: ShapeSearch, name: str, tried: int, last: dict[str, int] | None, shrunk: dict[str, int]
) -> tuple[bool, dict[str, int]] | None:
    """Grow one size as far as is affordable.

    Args:
        search: the search for shapes of this reference.
        name: the knob that grows.
        tried: its largest value in the shapes so far.
        last: the last long shape.
        shrunk: the shrunk shape.

    Returns:
        Whether the last shape was extended, and the overrides; None if the size cannot grow.
    """
    full, most = search.full[name], _most(search, name)
    equals = [other for other in search.full if search.full[other] == full]
    values = [most >> halvings for halvings in range(most.bit_length())]
    for value in (value for value in values if tried < value == full or value >= LEAST_GROWTH * tried):
        for base, group in itertools.product(_bases(search, last, shrunk), ([name], equals)):
            if base is last and group is equals:
                continue  # growing several knobs could undo what another one has in that shape
            overrides = {**base, **dict.fromkeys(group, value)}
            overrides = {other: size for other, size in overrides.items() if size != search.full[other]}
            if is_affordable(search, overrides) and search.trials.runs(overrides):
                return base is last, overrides
    return None


def _grow_others(search: ShapeSearch, overrides: dict[str, int]) -> dict[str, int]:
    """Grow the other sizes of a shape as far as is affordable, since a branch may ask for two large ones at once."""
    grown = dict(overrides)
    for name in sorted(overrides, key=lambda name: search.full[name]):
        values = [_most(search, name) >> halvings for halvings in range(HALVINGS)]
        larger = ({**grown, name: value} for value in values if value > grown[name])
        grown = next((trial for trial in larger if is_affordable(search, trial)), grown)
    grown = {name: size for name, size in grown.items() if size != search.full[name]}
    return grown if search.trials.runs(grown) else overrides


def _most(search: ShapeSearch, name: str) -> int:
    """The largest value that a knob may grow to: rows are limited, since each may have a program of its own."""
    alone = len(search.full) == 1  # then it counts elements, not rows
    return search.full[name] if alone or name not in search.leading else min(search.full[name], MAX_ROWS)


def _bases(search: ShapeSearch, last: dict[str, int] | None, shrunk: dict[str, int]) -> list[dict[str, int]]:
    """Shapes of which one size may grow, the last long one first."""
    small = [_small(search, leading) for leading in LEADING]
    return [*([last] if last is not None else []), *small, shrunk]


def _small(search: ShapeSearch, leading: int) -> dict[str, int]:
    """A shape whose sizes are all small."""
    cycle = itertools.cycle(SMALL)
    overrides = {name: min(search.full[name], leading) for name in search.leading}
    for name in search.wide:
        value = next(cycle)
        value = 1 << (value.bit_length() - 1) if HEAD_WIDTH.fullmatch(name.lower()) else value
        overrides[name] = min(search.full[name], value)
    return overrides


def is_affordable(search: ShapeSearch, overrides: dict[str, int]) -> bool:
    """Whether an interpreter can process a shape."""
    size = search.trials.size(overrides)
    if size is None:
        return False
    return size.largest <= MAX_ELEMENTS and size.elements <= MAX_TOTAL and size.flops <= MAX_FLOPS
