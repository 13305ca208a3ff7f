"""Find smaller shapes of a reference by trial, to judge candidates on where the full shape cannot run.

All knobs shrink together, level by level, and a trial that makes the reference fail is undone. So constraints between
sizes (heads divide the model width, groups divide channels) hold without being known.
"""

from __future__ import annotations

import functools
import itertools
import logging
import math
import re
from dataclasses import dataclass
from typing import Literal

from egg_graph.evaluator.problem.knobs import shape_knobs
from egg_graph.evaluator.problem.model_names import names_read_by_model
from egg_graph.evaluator.problem.reference import load_reference
from egg_graph.evaluator.problem.shape_trials import (
    MAX_ELEMENTS,
    MAX_STEPS,
    SURE,
    ForwardSize,
    ShapeTrials,
    input_shapes,
    output_shapes,
)
from egg_graph.schema import BadInput

HEADS = re.compile(r"(n|num|number_of)?_?(q|kv|query|key|key_value)?_?heads?")
"""Matches names of a number of heads."""
HEAD_WIDTH = re.compile(r"(qk_|v_)?head_?(dim|size|width)|(dim|d|size)_?heads?|d_(k|qk|v)")
"""Matches names of the width of a head: most attention kernels use it as a block size, which must be a power of two."""
PART_OF_HEAD = re.compile(r"rope|rotary|rot_|nope")
"""Finds names of the part of a head's width that is turned, or is not."""
Kind = Literal["shrunk", "awkward"]
SMALL = 8
"""Integers up to this are left alone at first: they are axes, kernel sizes, strides or heads, not sizes."""
SECONDS = 40.0
"""Time limit of one search."""

# Several values per level make all sizes differ, so that a swapped stride shows. Larger knobs get the larger values, so
# that `sequence <= longest sequence` still holds. The first levels are for row-wise problems: the faults of a loop over
# a row show only if the row spans more than one block.
SHRUNK_LEVELS = (
    *((4128, 4112), (1056, 1040), (288, 272), (144, 128, 112), (112, 96, 80), (80, 64, 48)),
    *((48, 32), (32, 16), (16,)),
)
"""Sizes of wide knobs at the shrunk shape, all multiples of 16."""
AWKWARD_LEVELS = (
    *((4111, 4099), (1033, 1031), (269, 263), (131, 113, 101), (101, 79, 67), (67, 53, 37)),
    *((37, 29), (19, 13), (13, 11)),
)
"""Sizes of wide knobs at the awkward shape, all prime."""
FIRST_PRODUCT_LEVEL = 3
"""First level for matrix products: sizes of about 130, which is two tiles of 128 with the second nearly empty."""
AWKWARD_VALUES = (101, 67, 37, 29, 19, 13, 7)
"""Sizes that replace shrunk ones if no awkward level runs."""
LEADING = {"shrunk": (16, 2), "awkward": (19, 3)}
"""Number of rows of a 2-D row-wise problem, and leading dimension of deeper inputs."""

DEMANDS = ((True, True), (False, True), (True, False), (False, False))
"""What a smaller shape must keep, the most wanted first: whether the steps of the forward, and whether an answer that
moves with the inputs. Its layers it always keeps; shapes where fp32 errs less (see `SURE`) come before all others."""
ONE_BY_ONE = ((48, 32, 16), (16,))
"""Sizes of knobs that shrink one by one; the second ones if the first make no small shape."""
LARGER = (112, 96, 80)
"""Sizes of such knobs if the reference meets the demands at none of those."""
LARGEST_BLOCK = 256
"""Sizes that `Model` reads may have to divide others up to this one."""
MOST_RUN = 64 * MAX_ELEMENTS
"""Largest number of elements of any one tensor of a shape that is not small and run all the same."""


@functools.lru_cache(maxsize=16)
def choose_shapes(source: str) -> tuple[dict[str, int], dict[str, int]]:
    """Choose overrides for two smaller shapes of a reference: `(shrunk, awkward)`.

    The shrunk sizes are multiples of 16 if the reference allows it (aligned, whole tiles and a tail); the awkward ones
    are odd, mostly prime. Either is empty if no integer of the source can vary.

    Raises:
        BadInput: if the reference does not run at its own shape.
    """
    import torch  # noqa: F401 - sets up its loggers when it is imported

    logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)  # it logs every undone trial
    search = ShapeSearch(source, keeps_read=True)
    shrunk = search.shrink()
    if search.full != search.known and (shrunk is None or not search.trials.is_small(shrunk)):
        search = ShapeSearch(source, keeps_read=False)
        shrunk = search.shrink()
    if shrunk is None:
        return {}, {}
    awkward = search.shrink_together("awkward", AWKWARD_LEVELS)
    return shrunk, search.make_awkward(shrunk) if awkward is None else awkward


def search_shapes(source: str) -> ShapeSearch:
    """A search that keeps the sizes which `Model` reads, unless `choose_shapes` had to change one. Raises as
    `ShapeSearch`."""
    changed = {name for overrides in choose_shapes(source) for name in overrides}
    return ShapeSearch(source, keeps_read=not changed & _read_knobs(source))


def _read_knobs(source: str) -> set[str]:
    """The knobs whose module-level names `Model` reads."""
    names = names_read_by_model(source)
    return {knob for knob in shape_knobs(source) if knob.split(".")[0] in names}


@dataclass
class ShapeSearch:
    """A search for smaller shapes of one reference.

    Args:
        source: the reference's source.
        keeps_read: whether knobs that `Model` reads keep their values (see `model_names`).

    Raises:
        BadInput: if the reference does not run at its own shape.
    """

    source: str
    keeps_read: bool

    def __post_init__(self) -> None:
        self.trials = ShapeTrials(self.source, SECONDS)
        self.known = shape_knobs(self.source)
        """Values of all knobs at full shape."""
        kept = _read_knobs(self.source) if self.keeps_read else set()
        self.full = {name: value for name, value in self.known.items() if name not in kept}
        """Values at full shape of the knobs that may change."""
        size = self.trials.size({})
        if size is None:
            raise BadInput(f"reference: it does not run at its own shape: {self.trials.last_failure}")
        reference = load_reference(self.source)
        self.full_inputs, self.full_outputs = input_shapes(reference), output_shapes(reference)
        """Shapes of inputs and outputs at full shape."""
        self.leading = {name: rank for name in self.full if (rank := self._leading_rank(name))}
        """Knobs that are the first dimension of inputs (rows, batches, heads) and the largest rank of these inputs."""
        self.takes_too_many_steps = size.form is not None and len(size.form.calls) > MAX_STEPS
        """Whether no shape that keeps the steps of the forward is small."""
        multiplies = size.flops > 0
        self.first_level = FIRST_PRODUCT_LEVEL if multiplies else 0
        wide = [
            name
            for name, value in self.full.items()
            if value > SMALL and (name not in self.leading or (multiplies and self.leading[name] == 2))
        ]
        self.wide = sorted(wide, key=lambda name: -self.full[name])
        """Knobs that are sizes of other dimensions, the largest first."""

    def shrink(self) -> dict[str, int] | None:
        """Overrides of a small shape at which the reference keeps as much as it can of what `DEMANDS` asks.

        Returns:
            Overrides of the shape with the fewest elements if none is small, None if none runs. The trials go on with
            the demands that it meets.
        """
        for self.trials.most_error in SURE:
            shrunk = self._shrink_under_demands()
            if shrunk is not None:
                return shrunk
        return None

    def _shrink_under_demands(self) -> dict[str, int] | None:
        found: list[tuple[int, tuple[bool, bool], dict[str, int]]] = []
        for demands in DEMANDS:
            if demands[0] and self.takes_too_many_steps:
                continue
            if not demands[1] and self._is_small_itself():
                return {}
            self._demand(demands)
            shrunk = self._shrink_somehow()
            size = None if shrunk is None else self.trials.size(shrunk)
            if shrunk is None or size is None:
                continue
            if size.is_small:
                return shrunk
            found.append((size.elements, demands, shrunk))
        if not found:
            return None
        _, demands, shrunk = min(found, key=lambda shape: shape[0])
        self._demand(demands)
        return shrunk

    def _is_small_itself(self) -> bool:
        """Whether the reference is small at its own shape, and its answer moves there."""
        self._demand(DEMANDS[0])
        return self._is_good({})

    def _demand(self, demands: tuple[bool, bool]) -> None:
        self.trials.steps_must_stay, self.trials.answer_must_move = demands

    def _shrink_somehow(self) -> dict[str, int] | None:
        ways = (self.shrink_one_by_one, self.shrink_proportionally, self.shrink_less)
        shrunk = self.shrink_together("shrunk", SHRUNK_LEVELS)
        return shrunk if shrunk is not None else next((x for way in ways if (x := way()) is not None), None)

    def shrink_together(self, kind: Kind, levels: tuple[tuple[int, ...], ...]) -> dict[str, int] | None:
        """Overrides of the first level at which all knobs together run and are small; None if there is none."""
        return next((x for level in levels[self.first_level :] if (x := self.at_level(kind, level)) is not None), None)

    def at_level(self, kind: Kind, level: tuple[int, ...]) -> dict[str, int] | None:
        """Overrides of one level, if all knobs together run at it and are small."""
        tried = (self._assign(kind, level, tied) for tied in (False, True))
        return next((overrides for overrides in tried if self._is_good(overrides)), None)

    def shrink_proportionally(self) -> dict[str, int] | None:
        """Overrides of the first level at which knobs divided by one factor run and are small; None if none does."""
        tried = (self._divide(level) for level in SHRUNK_LEVELS[self.first_level :])
        return next((overrides for overrides in tried if self._is_good(overrides)), None)

    def shrink_one_by_one(self) -> dict[str, int] | None:
        """Shrink each knob alone, then with its equals, in two rounds; then the small knobs, if need be.

        Returns:
            Overrides, empty if no knob can shrink; None if no result runs on real tensors.
        """
        for values in ONE_BY_ONE:
            chosen = self._shrink_each(values)
            if self.trials.is_small(chosen):
                break
        chosen = self._shrink_small_knobs(chosen)
        return chosen if not chosen or self.trials.runs(chosen) else None

    def shrink_less(self) -> dict[str, int] | None:
        """Shrink each knob to the larger ones of the sizes, though it makes no small shape; None if none runs."""
        for values in (ONE_BY_ONE[0], LARGER):
            chosen = self._shrink_each(values)
            size = self.trials.size(chosen)
            if chosen and size is not None and size.largest <= MOST_RUN and self.trials.runs(chosen):
                return chosen
        return None

    def _shrink_each(self, values: tuple[int, ...]) -> dict[str, int]:
        chosen: dict[str, int] = {}
        for _ in range(2):
            for name in (*self.wide, *self.leading):
                chosen = chosen if name in chosen else self._shrink(chosen, name, values)
        return chosen

    def _shrink_small_knobs(self, chosen: dict[str, int]) -> dict[str, int]:
        """Shrink knobs of at most `SMALL` as well, where a shape is not small without that.

        Of two rows none is left out unless that makes it small: faults between rows show only if there are two.
        """
        size = self.trials.size(chosen)
        for name, value in self.full.items():
            if size is not None and not size.is_small and name not in chosen and 1 < value <= SMALL:
                smaller = {**chosen, name: 1 if value == 2 else 2}
                after = self.trials.size(smaller)
                if after is None or after.elements >= size.elements:
                    continue
                keeps_rows = after.is_small or value > 2 or name not in self.leading
                if keeps_rows and self.trials.runs(smaller):
                    chosen, size = smaller, after
        return chosen

    def make_awkward(self, shrunk: dict[str, int]) -> dict[str, int]:
        """Move as many knobs of a shrunk shape as possible to odd or prime values, one by one."""
        chosen = dict(shrunk)
        limit = self.trials.size(shrunk)
        for name in (*self.wide, *self.leading):
            if HEAD_WIDTH.fullmatch(name.lower()):
                continue
            now = chosen.get(name, self.full[name])
            for value in (*AWKWARD_VALUES, *(5 * divisor for divisor in self._divisors(name))):
                moved = {**chosen, name: value}
                if value <= 2 * now and value < self.full[name] and value != now and self._fits(moved, limit):
                    chosen = moved
                    break
        return chosen

    def _is_good(self, overrides: dict[str, int]) -> bool:
        return self.trials.is_small(overrides) and self.trials.runs(overrides)

    def _fits(self, overrides: dict[str, int], limit: ForwardSize | None) -> bool:
        """Whether a shape runs and is small, or holds no more elements than `limit`."""
        size = self.trials.size(overrides)
        if size is None or limit is None:
            return False
        return (size.is_small or size.elements <= limit.elements) and self.trials.runs(overrides)

    def _assign(self, kind: Kind, level: tuple[int, ...], tied: bool) -> dict[str, int]:
        """One value of a level for each knob. If `tied`, knobs with equal values get equal values."""
        cycle = itertools.cycle(level)
        by_size: dict[int, int] = {}
        overrides: dict[str, int] = {}
        for name in self.wide:
            full = self.full[name]
            value = by_size.setdefault(full, next(cycle)) if tied else next(cycle)
            if HEAD_WIDTH.fullmatch(name.lower()):
                value = min(full, 1 << (value.bit_length() - 1))
                overrides[name] = value
                continue
            overrides[name] = value if value < full else full - 1 if kind == "awkward" and full % 2 == 0 else full
        for name in self.leading:
            overrides.setdefault(name, self._leading_value(kind, name))
        self._keep_parts_of_heads(overrides)
        return {name: value for name, value in overrides.items() if value != self.full[name]}

    def _keep_parts_of_heads(self, overrides: dict[str, int]) -> None:
        """Let what is a part of a head's width stay one; a reference may bear a larger one, for sizes of 1 repeat."""
        for width in (name for name in overrides if HEAD_WIDTH.fullmatch(name.lower())):
            for part in (name for name in overrides if PART_OF_HEAD.search(name.lower())):
                if self.full[part] <= self.full[width] and overrides[part] > overrides[width]:
                    overrides[part] = overrides[width] // 2

    def _divide(self, level: tuple[int, ...]) -> dict[str, int]:
        """Divide all knobs by one factor, so that groups still hold several channels and still divide them."""
        largest = max((self.full[name] for name in self.wide), default=1)
        power = 1 << (level[0].bit_length() - 1)
        least = 3  # a window must span more than one element
        overrides = {name: max(least, self.full[name] * power // largest) for name in self.wide if power < largest}
        for name in self.leading:
            overrides.setdefault(name, self._leading_value("shrunk", name))
        return {name: value for name, value in overrides.items() if value != self.full[name]}

    def _leading_value(self, kind: Kind, name: str) -> int:
        return min(self.full[name], LEADING[kind][0 if self.leading[name] <= 2 else 1])

    def _shrink(self, chosen: dict[str, int], name: str, sizes: tuple[int, ...]) -> dict[str, int]:
        """Add one knob, alone or with its equals, at the first value that runs; `chosen` itself if none does.

        Of a leading one preferably at a value at which the demands are met, too: of few rows, which come last, a sparse
        answer may be zero.
        """
        full = self.full[name]
        values = [*sizes, *sorted({math.lcm(divisor, 16) for divisor in self._divisors(name)})]
        if name not in self.wide:
            values.insert(0, self._leading_value("shrunk", name))
        groups = ([name], [other for other in self.full if self.full[other] == full])
        smaller = [value for value in values if value < full]
        trials = [{**chosen, **dict.fromkeys(group, value)} for group in groups for value in smaller]
        if name in self.leading and (good := next(filter(self._is_good, trials), None)) is not None:
            return good
        return next((trial for trial in trials if self.trials.size(trial) is not None), chosen)

    def _divisors(self, name: str) -> list[int]:
        """Numbers that may have to divide a knob: heads, groups and the like are integers of the source too, and what
        `Model` reads may be the size of a block."""
        blocks = {value for other, value in self.known.items() if other not in self.full and value <= LARGEST_BLOCK}
        return sorted(
            {v for v in self.known.values() if 1 < v <= 64} | blocks - {0, 1} | {math.gcd(self.full[name], 64)}
        )

    def _leading_rank(self, name: str) -> int:
        """Largest rank of the inputs of which a knob is the first dimension and nothing else; 0 if there is none."""
        value = self.full[name]
        if HEADS.fullmatch(name.lower()) and value > 1:
            return 4  # heads are independent of each other; elements are better spent on the sequence
        if value <= 1 or not any(shape and shape[0] == value for shape in self.full_inputs):
            return 0
        try:
            reference = load_reference(self.source, {name: value + 1})
            moved = input_shapes(reference)
        except BadInput:
            return 0
        if any(self.full_outputs) and output_shapes(reference) == self.full_outputs:
            return 0  # it is summed over, and how partial sums meet shows only if there are several
        if len(moved) != len(self.full_inputs):  # the knob says how many inputs there are
            return 0
        changed = [
            (axis, len(old))
            for old, new in zip(self.full_inputs, moved, strict=True)
            for axis, (a, b) in enumerate(zip(old, new, strict=False))
            if a != b
        ]
        return max((rank for _, rank in changed), default=0) if all(axis == 0 for axis, _ in changed) else 0
