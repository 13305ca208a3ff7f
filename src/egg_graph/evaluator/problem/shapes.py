"""Smaller shapes of a reference, found by trial: where the full shape cannot run, these stand in for it.

Knobs shrink together, level by level; a trial that makes the reference fail is undone, so constraints between sizes
(heads divide the model width, groups divide channels) hold without being known. Trials run under fake tensors, which
cost no memory; a choice is confirmed by one real run.
"""

from __future__ import annotations

import itertools
import logging
import math
import re
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal

from egg_graph.evaluator.problem.reference import Reference, load_reference, one_line, shape_knobs
from egg_graph.schema import BadInput

HEADS = re.compile(r"(n|num|number_of)?_?(q|kv|query|key|key_value)?_?heads?")
HEAD_WIDTH = re.compile(r"(qk_|v_)?head_?(dim|size|width)|(dim|d|size)_?heads?|d_(k|qk|v)")
"""Part of an architecture, and a block size in most kernels for it, which must be a power of two."""
Kind = Literal["shrunk", "awkward"]
SMALL = 8
"""Integers up to this are left alone at first: they are axes, kernel sizes, strides, heads, not sizes."""
MAX_ELEMENTS = 130_000
"""Of any one tensor (twice that for inputs, parameters and outputs together): what an interpreter can chew."""
MAX_FLOPS = 5e7
MAX_OPERATORS = 1600
"""Of one forward: a recurrence runs some for every step, and a kernel for it takes its steps one after the other."""
STILL = 1e-5
"""Relative difference of two answers up to which a smaller shape counts as one whose answer stands still."""
NOISE = 30.0
"""A difference less than so many times what fp32 lost is rounding."""
SECONDS = 40.0
"""Time box of one search."""

# Several values per level, so that no two sizes are equal and a swapped stride shows. The first levels are for
# row-wise problems, whose loops over a row only show their faults when a row spans more than one block.
# Larger knobs get the larger values, so that `sequence <= longest sequence` goes on holding.
SHRUNK_LEVELS = (
    *((4128, 4112), (1056, 1040), (288, 272), (144, 128, 112), (112, 96, 80), (80, 64, 48)),
    *((48, 32), (32, 16), (16,)),
)
AWKWARD_LEVELS = (
    *((4111, 4099), (1033, 1031), (269, 263), (131, 113, 101), (101, 79, 67), (67, 53, 37)),
    *((37, 29), (19, 13), (13, 11)),
)
FIRST_PRODUCT_LEVEL = 3
"""Matrix products start at about 130: two tiles of 128, the second nearly empty."""
AWKWARD_VALUES = (101, 67, 37, 29, 19, 13, 7)
LEADING = {"shrunk": (16, 2), "awkward": (19, 3)}
"""Rows of a 2-D row-wise problem, and leading dimensions of anything deeper."""


@dataclass(frozen=True)
class Size:
    """What one forward of the reference holds and does."""

    elements: int
    """Inputs, parameters and outputs together."""
    largest: int
    flops: float
    operators: int = 0

    @property
    def small(self) -> bool:
        fits = self.elements <= 2 * MAX_ELEMENTS and self.largest <= MAX_ELEMENTS
        return fits and self.flops <= MAX_FLOPS and self.operators <= MAX_OPERATORS


def choose_shapes(source: str) -> tuple[dict[str, int], dict[str, int]]:
    """Overrides for two smaller shapes of a reference: `(shrunk, awkward)`.

    The shrunk sizes are multiples of 16 where the reference allows it (aligned, whole tiles and a tail); the awkward
    ones are odd, mostly prime. Either is empty where no integer of the source can vary.

    Raises:
        BadInput: if the reference does not run at its own shape.
    """
    import torch  # noqa: F401 - sets up its loggers when it is imported

    logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)  # it logs every undone trial
    search = ShapeSearch(source)
    if search.at_full is None:
        raise BadInput(f"reference: it does not run at its own shape: {search.last_failure}")
    for search.picky in (True, False):
        shrunk = search.all_at_once("shrunk", SHRUNK_LEVELS)
        shrunk = search.one_by_one() if shrunk is None else shrunk
        shrunk = search.proportionally() if shrunk is None else shrunk
        if shrunk is not None:
            break
    else:
        return {}, {}
    awkward = search.all_at_once("awkward", AWKWARD_LEVELS)
    return shrunk, search.unsettle(shrunk) if awkward is None else awkward


@dataclass
class ShapeSearch:
    source: str
    seen: dict[tuple[tuple[str, int], ...], Size | None] = field(default_factory=dict)
    last_failure: str = ""
    picky: bool = True
    """Whether the answer must move with the inputs: one channel in a group that is normalised, say, answers nothing."""
    real: dict[tuple[tuple[str, int], ...], bool | None] = field(default_factory=dict)
    """Of shapes that were run for real, whether the answer moves; None where it failed."""

    def __post_init__(self) -> None:
        self.full = shape_knobs(self.source)
        self.deadline = time.monotonic() + SECONDS
        self.at_full = self.trial({})
        if self.at_full is None:
            return
        self.shape_of = _input_shapes(load_reference(self.source))
        self.answered = _output_shapes(load_reference(self.source))
        self.leading = {name: rank for name in self.full if (rank := self._leading_rank(name))}
        product = self.at_full.flops > 0
        self.first = FIRST_PRODUCT_LEVEL if product else 0
        wide = [
            name
            for name, value in self.full.items()
            if value > SMALL and (name not in self.leading or (product and self.leading[name] == 2))
        ]
        self.wide = sorted(wide, key=lambda name: -self.full[name])

    def all_at_once(self, kind: Kind, levels: tuple[tuple[int, ...], ...]) -> dict[str, int] | None:
        """The first level at which the whole set of knobs runs and is small; None where there is none."""
        for level in levels[self.first :]:
            for tied in (False, True):
                overrides = self._assign(kind, level, tied)
                if self._good(overrides):
                    return overrides
        return None

    def proportionally(self) -> dict[str, int] | None:
        """The first level at which all knobs shrunk by one factor do; None where there is none."""
        tried = (self._proportional(level) for level in SHRUNK_LEVELS[self.first :])
        return next((overrides for overrides in tried if self._good(overrides)), None)

    def _good(self, overrides: dict[str, int]) -> bool:
        size = self.trial(overrides)
        return size is not None and size.small and self.runs(overrides)

    def one_by_one(self) -> dict[str, int] | None:
        """Each knob alone, then with its equals, two rounds; what fails is undone. Then the small knobs, if need be.

        Empty where none can be smaller, None where the result does not run for real.
        """
        for values in ((48, 32, 16), (16,)):
            chosen: dict[str, int] = {}
            for _ in range(2):
                for name in (*self.wide, *self.leading):
                    chosen = chosen if name in chosen else self._shrink(chosen, name, values)
            size = self.trial(chosen)
            if size is not None and size.small:
                break
        for name, value in self.full.items():
            if size is not None and not size.small and name not in chosen and 1 < value <= SMALL:
                smaller = {**chosen, name: 1 if value == 2 else 2}
                after = self.trial(smaller)
                if after is not None and after.elements < size.elements and self.runs(smaller):
                    chosen, size = smaller, after
        return chosen if not chosen or self.runs(chosen) else None

    def unsettle(self, shrunk: dict[str, int]) -> dict[str, int]:
        """From a shrunk set that runs, as many knobs as possible moved to odd or prime values, one by one."""
        chosen = dict(shrunk)
        limit = self.trial(shrunk)
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

    def _fits(self, overrides: dict[str, int], limit: Size | None) -> bool:
        size = self.trial(overrides)
        if size is None or limit is None:
            return False
        return (size.small or size.elements <= limit.elements) and self.runs(overrides)

    def _assign(self, kind: Kind, level: tuple[int, ...], tied: bool) -> dict[str, int]:
        """One value per knob; equal knobs get equal values where `tied`."""
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
        return {name: value for name, value in overrides.items() if value != self.full[name]}

    def _proportional(self, level: tuple[int, ...]) -> dict[str, int]:
        """Every knob by the same factor: groups go on holding several channels, and dividing them."""
        largest = max((self.full[name] for name in self.wide), default=1)
        power = 1 << (level[0].bit_length() - 1)
        least = 3  # a window of one element is none
        overrides = {name: max(least, self.full[name] * power // largest) for name in self.wide if power < largest}
        for name in self.leading:
            overrides.setdefault(name, self._leading_value("shrunk", name))
        return {name: value for name, value in overrides.items() if value != self.full[name]}

    def _leading_value(self, kind: Kind, name: str) -> int:
        return min(self.full[name], LEADING[kind][0 if self.leading[name] <= 2 else 1])

    def _shrink(self, chosen: dict[str, int], name: str, sizes: tuple[int, ...]) -> dict[str, int]:
        full = self.full[name]
        values = [*sizes, *sorted({math.lcm(divisor, 16) for divisor in self._divisors(name)})]
        if name not in self.wide:
            values.insert(0, self._leading_value("shrunk", name))
        for group in ([name], [other for other in self.full if self.full[other] == full]):
            for value in values:
                trial = {**chosen, **dict.fromkeys(group, value)}
                if value < full and self.trial(trial) is not None:
                    return trial
        return chosen

    def _divisors(self, name: str) -> list[int]:
        """Sizes that this one may have to be a multiple of: heads, groups and the like are in the source too."""
        return sorted({v for v in self.full.values() if 1 < v <= 64} | {math.gcd(self.full[name], 64)})

    # ------------------------------------------------------------------------------------------------ trials

    def trial(self, overrides: Mapping[str, int]) -> Size | None:
        """Size of the reference with these integers; None where it fails or time is up."""
        key = tuple(sorted(overrides.items()))
        if key not in self.seen:
            if self.seen and time.monotonic() > self.deadline:
                return None
            try:
                self.seen[key] = _measure(load_reference(self.source, overrides))
            except Exception as error:  # noqa: BLE001 - any failure at all is this trial's answer
                self.last_failure = one_line(error)
                self.seen[key] = None
        return self.seen[key]

    def runs(self, overrides: Mapping[str, int]) -> bool:
        """Whether it runs on real tensors too: indices in range are not seen under fake ones. And, where this search is
        picky, whether other inputs get another answer."""
        key = tuple(sorted(overrides.items()))
        if key not in self.real:
            try:
                self.real[key] = _moves(load_reference(self.source, overrides))
            except Exception as error:  # noqa: BLE001 - as in `trial`
                self.last_failure = one_line(error)
                self.real[key] = None
        return bool(self.real[key]) if self.picky else self.real[key] is not None

    def _leading_rank(self, name: str) -> int:
        """Largest rank of the inputs of which this knob is the first dimension and nothing else; 0 where it is not."""
        value = self.full[name]
        if HEADS.fullmatch(name.lower()) and value > 1:
            return 4  # heads are independent of each other; elements are better spent on the sequence
        if value <= 1 or not any(shape and shape[0] == value for shape in self.shape_of):
            return 0
        try:
            reference = load_reference(self.source, {name: value + 1})
            moved = _input_shapes(reference)
        except BadInput:
            return 0
        if any(self.answered) and _output_shapes(reference) == self.answered:
            return 0  # summed over: how the parts of a sum meet shows only where there are several
        changed = [
            (axis, len(old))
            for old, new in zip(self.shape_of, moved, strict=True)
            for axis, (a, b) in enumerate(zip(old, new, strict=False))
            if a != b
        ]
        return max((rank for _, rank in changed), default=0) if all(axis == 0 for axis, _ in changed) else 0


def _input_shapes(reference: Reference) -> list[tuple[int, ...]]:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True):
        return [tuple(x.shape) for x in reference.inputs(0) if isinstance(x, torch.Tensor)]


def _output_shapes(reference: Reference) -> list[tuple[int, ...]]:
    """Of a forward under fake tensors; empty where it defies them."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils._pytree import tree_leaves

    try:
        with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
            outputs = reference.model(0)(*reference.inputs(0))
    except Exception:  # noqa: BLE001 - as in `trial`: it does not run so, and tells nothing
        return []
    return [tuple(x.shape) for x in tree_leaves(outputs) if isinstance(x, torch.Tensor)]


def _moves(reference: Reference) -> bool:
    """Whether two draws of the inputs get answers that differ by more than `STILL`, and by more than rounding."""
    import torch

    one, other = (_answer(reference, seed, torch.float32) for seed in (0, 1))
    try:
        exact = _answer(reference, 0, torch.float64)
    except RuntimeError:  # it names a dtype of its own
        exact = one
    return any(
        a.shape != b.shape or float((a - b).norm()) > max(STILL * float(a.norm()), NOISE * float((a - c).norm()), 0.0)
        for a, b, c in zip(one, other, exact, strict=True)
    )


def _answer(reference: Reference, seed: int, dtype: Any) -> list[Any]:
    """Its answer computed in `dtype`, told in fp64; infinities and NaN count as 0."""
    import torch
    from torch.utils._pytree import tree_leaves, tree_map

    def cast(x: Any) -> Any:
        return x.to(dtype) if isinstance(x, torch.Tensor) and x.is_floating_point() else x

    with torch.no_grad():
        model = reference.model(0)
        model = model.to(dtype) if dtype == torch.float64 else model
        inputs = reference.inputs(seed)
        outputs = tree_leaves(model(*(tree_map(cast, inputs) if dtype == torch.float64 else inputs)))
    tensors = [torch.view_as_real(x) if x.is_complex() else x for x in outputs if isinstance(x, torch.Tensor)]
    return [x.double().nan_to_num(0.0, 0.0, 0.0) for x in tensors]


def _measure(reference: Reference) -> Size:
    """Run once under fake tensors; on real ones where the reference looks at values and its inputs are small."""
    import torch
    from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode

    try:
        return _forward(reference, FakeTensorMode(allow_non_fake_inputs=True))
    except BadInput as error:
        if not isinstance(error.__cause__, DataDependentOutputException | DynamicOutputShapeException | AssertionError):
            raise
    except (DataDependentOutputException, DynamicOutputShapeException, AssertionError):
        pass  # AssertionError: fake and real tensors met; the reference made one outside of torch's sight
    shapes = _input_shapes(reference)
    if sum(math.prod(shape) for shape in shapes) > 32 * MAX_ELEMENTS:
        # Too large to run for real: its inputs alone say how large it is.
        total = sum(math.prod(shape) for shape in shapes)
        return Size(elements=total, largest=total, flops=math.inf)
    with torch.no_grad():
        return _forward(reference, nullcontext())


def _forward(reference: Reference, mode: AbstractContextManager[object]) -> Size:
    import torch
    from torch.utils._pytree import tree_leaves

    from egg_graph.evaluator.problem.flops import flop_counter

    with mode, torch.no_grad():
        model, inputs = reference.model(0), reference.inputs(0)
        counter = flop_counter()
        with counter, _largest_mode() as seen:
            outputs = model(*inputs)
    leaves = [x for x in tree_leaves((inputs, outputs)) if isinstance(x, torch.Tensor)]
    leaves += [*model.parameters(), *model.buffers()]
    return Size(sum(x.numel() for x in leaves), max(seen.largest, 0), float(counter.get_total_flops()), seen.operators)


def _largest_mode() -> Any:
    """A dispatch mode that keeps the size of the largest tensor any operator made, and how many ran."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    class Largest(TorchDispatchMode):
        largest = operators = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            answer = func(*args, **(kwargs or {}))
            self.operators += 1
            sizes = [x.numel() for x in tree_leaves(answer) if isinstance(x, torch.Tensor)]
            self.largest = max(self.largest, *sizes) if sizes else self.largest
            return answer

    return Largest()
