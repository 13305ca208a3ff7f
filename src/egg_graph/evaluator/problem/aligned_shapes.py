"""Smaller shapes for kernels that refuse odd sizes: each size keeps what the full one promises.

A descriptor wants strides of whole 16 bytes, `tl.arange` a power of two, an assertion whole blocks. What a kernel may
take for granted of a size is what the full one has: how often two divides it, whether it is a power of two, and which
other sizes it equals (a reference may bear what the kernel refuses, where two literals of it are one size).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations

from egg_graph.evaluator.problem.long_shapes import is_affordable
from egg_graph.evaluator.problem.reference import load_reference
from egg_graph.evaluator.problem.shape_trials import input_shapes
from egg_graph.evaluator.problem.shapes import ShapeSearch, search_shapes

TARGETS = (2048, 1024, 512, 256, 128, 64, 32, 16)
"""About how large the sizes are: the largest that are small enough come first, since they are multiples of most."""
FEWEST_SHAPES, MOST_SHAPES = 2, 6
"""Where fewer are found, a recurrence may have fewer steps than at full shape."""
OTHERS, MOST_IN_FULL = ((16, 2), (8, 1), (2, 2), (2, 1), (1 << 30, 2), (1 << 30, 1)), 6
"""How large the others, and leading ones, are where one size is kept whole, and the most shapes of that kind."""
LARGEST_WHOLE = 2048
"""Sizes up to this are kept whole."""
ALL_WHOLE, BESIDE, MOST_ALL_WHOLE = (256, 1024, 2048), (16, 64), (6, 3)
"""Where all sizes of one value, or of two, are kept large: how large at least, how large the others are then, and the
most shapes of each kind. They may be as large as long ones, for kernels that refuse whatever is smaller."""
BLOCKS, MOST_BLOCKS = ((16, 2), (16, 4), (32, 2), (64, 2)), 3
"""How large the others, and leading ones, are where one size is kept whole and the others make whole blocks of rows, as
the square of an image's side does, and the most shapes of that kind. They may be as large as long ones."""
DIVISORS, MOST_IN_PROPORTION = (16, 8, 32, 64, 128), 2
"""What all sizes are divided by together, and the most shapes of that kind: a kernel may go by how many times as large
as another one a size is."""
MOST_GROWN = 2
MOST_HALVED, MOST_LEADING_HALVED = 3, 2


def choose_aligned_shapes(source: str) -> list[dict[str, int]]:
    """Choose overrides of different shapes whose sizes are divisible by two as often as the full ones, if they can be.

    Raises:
        BadInput: if the reference does not run at its own shape.
    """
    search = search_shapes(source)
    chosen = _usable(search, _about_targets(search), MOST_SHAPES)
    if len(chosen) < FEWEST_SHAPES:
        search.trials.steps_must_stay = False
        chosen += _usable(search, _about_targets(search), MOST_SHAPES, known=chosen)
    in_full = (_one_in_full(search, name, *others) for name in search.wide for others in OTHERS)
    changed = (shape for shape in in_full if _changes_input(search, shape))
    chosen += _usable(search, changed, MOST_IN_FULL, known=chosen)
    blocks = (_one_in_full(search, name, *others) for name in search.wide for others in BLOCKS)
    changed = (shape for shape in blocks if _changes_input(search, shape))
    chosen += _usable(search, changed, MOST_BLOCKS, known=chosen, fits=is_affordable)
    for values, most in enumerate(MOST_ALL_WHOLE, start=1):
        large = (shape for shape in _equals_large(search, values) if _changes_input(search, shape))
        chosen += _usable(search, large, most, known=chosen, fits=is_affordable)
    divided = (_in_proportion(search, divisor) for divisor in DIVISORS)
    changed = (shape for shape in divided if _changes_input(search, shape))
    return chosen + _usable(search, changed, MOST_IN_PROPORTION, known=chosen, fits=is_affordable)


def _is_small(search: ShapeSearch, overrides: dict[str, int]) -> bool:
    size = search.trials.size(overrides)
    return size is not None and size.is_small


def _usable(
    search: ShapeSearch,
    shapes: Iterable[dict[str, int]],
    most: int,
    known: Sequence[dict[str, int]] = (),
    fits: Callable[[ShapeSearch, dict[str, int]], bool] = _is_small,
) -> list[dict[str, int]]:
    """The first shapes that run, an interpreter can process and are not known yet."""
    usable: list[dict[str, int]] = []
    for overrides in shapes:
        if overrides in known or overrides in usable:
            continue
        if not fits(search, overrides) or not search.trials.runs(overrides):
            continue
        usable.append(overrides)
        if len(usable) == most:
            break
    return usable


def _about_targets(search: ShapeSearch) -> Iterator[dict[str, int]]:
    """Overrides with sizes about each of `TARGETS`, the most wanted first."""
    for target in TARGETS:
        aligned = [_aligned(search, target, 0), _aligned(search, target, 1), _tied(search, target)]
        yield from aligned
        yield from (s for full in aligned if _changes_input(search, s := _with_own_leading(search, full)))
        yield from (_with_rows(search, aligned[0], rows) for rows in (target, 2 * target))


def choose_halved_shapes(source: str) -> list[dict[str, int]]:
    """Choose overrides with halves of the full sizes: of all, then of one after another, leading ones (batches, heads)
    last. Only a GPU computes at those.

    Raises:
        BadInput: if the reference does not run at its own shape.
    """
    search = search_shapes(source)
    halves = _halves(search, search.wide)
    shapes = [halves, *({name: half} for name, half in halves.items())]
    leading = _halves(search, sorted(search.leading.keys() - halves, key=lambda name: -search.full[name]))
    of_leading = [{name: half} for name, half in leading.items()]
    return [
        *[shape for shape in shapes if _changes_input(search, shape)][:MOST_HALVED],
        *[shape for shape in of_leading if _changes_input(search, shape)][:MOST_LEADING_HALVED],
    ]


def _halves(search: ShapeSearch, names: Iterable[str]) -> dict[str, int]:
    return {name: search.full[name] // 2 for name in names if search.full[name] % 2 == 0}


def grow_aligned(source: str, base: dict[str, int]) -> list[dict[str, int]]:
    """Overrides of an aligned shape with one size after another at its full value, where that is affordable."""
    search = search_shapes(source)
    grown = [{name: size for name, size in base.items() if name != other} for other in search.wide if other in base]
    return [shape for shape in grown if is_affordable(search, shape) and search.trials.runs(shape)][:MOST_GROWN]


def _aligned(search: ShapeSearch, target: int, turn: int) -> dict[str, int]:
    """Overrides with sizes about `target`; neighbours differ, and another turn swaps them."""
    overrides = {name: _like(search.full[name], target << ((i + turn) % 2)) for i, name in enumerate(search.wide)}
    for name in search.leading:
        overrides.setdefault(name, _like(search.full[name], 16 if search.leading[name] <= 2 else 2))
    return {name: value for name, value in overrides.items() if value != search.full[name]}


def _tied(search: ShapeSearch, target: int) -> dict[str, int]:
    """The same with equal sizes for what is equal at full shape."""
    values = sorted({search.full[name] for name in search.wide})
    sizes = {value: _like(value, target << (i % 2)) for i, value in enumerate(values)}
    for name in search.leading:
        value = search.full[name]
        sizes.setdefault(value, _like(value, 16 if search.leading[name] <= 2 else 2))
    overrides = {name: sizes[search.full[name]] for name in (*search.wide, *search.leading)}
    return {name: value for name, value in overrides.items() if value != search.full[name]}


def _one_in_full(search: ShapeSearch, whole: str, others: int, leading: int) -> dict[str, int]:
    """Overrides that keep one size, or much of it, and make the others small: a kernel may want it as it is."""
    overrides = {name: _like(search.full[name], others) for name in search.wide}
    overrides |= {name: _like(search.full[name], leading) for name in search.leading}
    overrides[whole] = _like(search.full[whole], LARGEST_WHOLE)
    return {name: value for name, value in overrides.items() if value != search.full[name]}


def _in_proportion(search: ShapeSearch, divisor: int) -> dict[str, int]:
    """Overrides with all sizes divided alike."""
    names = dict.fromkeys((*search.wide, *search.leading))
    sizes = {name: _like(search.full[name], max(2, search.full[name] // divisor)) for name in names}
    return {name: size for name, size in sizes.items() if size != search.full[name]}


def _equals_large(search: ShapeSearch, values: int) -> Iterator[dict[str, int]]:
    """Overrides that keep large all sizes of one value or of two, such as the lengths of queries and keys, and make the
    others small: a kernel may want whole blocks of many rows of each."""
    for kept in combinations(sorted({search.full[name] for name in search.wide}, reverse=True), values):
        for large in ALL_WHOLE:
            for beside in BESIDE:
                sizes = {name: large if search.full[name] in kept else beside for name in search.wide}
                overrides = {name: _like(search.full[name], size) for name, size in sizes.items()}
                overrides |= {name: _like(search.full[name], 1) for name in search.leading if name not in sizes}
                yield {name: size for name, size in overrides.items() if size != search.full[name]}


def _with_own_leading(search: ShapeSearch, overrides: dict[str, int]) -> dict[str, int]:
    """The same with the full values of leading sizes: heads may be a multiple of others, which are not known."""
    return {name: size for name, size in overrides.items() if name not in search.leading}


def _with_rows(search: ShapeSearch, overrides: dict[str, int], rows: int) -> dict[str, int]:
    """The same with the largest leading size at about `rows`: a kernel may want whole blocks of them."""
    name = max(search.leading, key=lambda leading: search.full[leading], default="")
    if not name or name in search.wide:
        return overrides
    changed = {**overrides, name: _like(search.full[name], rows)}
    return {name: size for name, size in changed.items() if size != search.full[name]}


def _changes_input(search: ShapeSearch, overrides: dict[str, int]) -> bool:
    """Whether the first input has another shape than at full shape: a kernel for that one alone is not right there."""
    if not search.full_inputs or search.trials.size(overrides) is None:
        return False
    return input_shapes(load_reference(search.source, overrides))[0] != search.full_inputs[0]


def _like(full: int, target: int) -> int:
    """A number of about `target`, at most `full`: a power of two if `full` is one, else an odd multiple of as large a
    power of two as divides `full`, a multiple of three if `full` is one."""
    if target >= full:
        return full
    power = full & -full
    if power == full:
        return 1 << (target.bit_length() - 1)
    unit = min(power, 1 << max(0, target.bit_length() - 2))
    odd = max(1, target // unit) | 1
    if full % 3 == 0:
        odd += {0: 0, 1: 2, 2: 4}[odd % 3]
    return min(full, unit * odd)
