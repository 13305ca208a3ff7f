"""Input families: distributions of the inputs that a kernel must also get right, beside the one `get_inputs` draws.

Benchmarks draw almost everything from [0, 1). There a ReLU is the identity, a softmax without its maximum does not
overflow, and an fp16 accumulator is good enough. Each family moves the drawn inputs to where such shortcuts fail. It
keeps the form of every input, its visible structure, its infinities, its order where it is in one, and boolean tensors;
families of their own change integers. PyTorch decides whether a problem can be judged on a family (see
`family_case`).

To add a family, add one row to `FAMILIES`.

NaN is no family: `tl.maximum` and `tl.max` drop it where PyTorch propagates it, and no user of a kernel relies on that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from egg_graph.evaluator.problem.orders import sorted_like
from egg_graph.evaluator.problem.ties import Ties, keep_ties

AS_GIVEN = "as given"
"""Name of the distribution that `get_inputs` draws."""
FEW = 16
"""Tensors with fewer elements are parameters (a scale, a temperature) and keep their values."""
SPARSE = 256
"""One element in this many is an outlier or infinite, but at least one per tensor."""
LABELS = 8
"""Whole numbers with at most this many distinct values may be labels and keep their values."""

Structure = Literal["free", "pattern", "counts", "whole", "kept"]
"""What is visible about the values of one input:

- `free`: any values make sense.
- `pattern`: zeros or symmetry have a meaning.
- `counts`: floating-point tensor of whole numbers, with more distinct values than labels have.
- `whole`: integer tensor.
- `kept`: values that no family changes: booleans, parameters, flags, labels and probabilities.
"""
Change = Callable[[torch.Tensor, torch.Generator], torch.Tensor]
"""Moves one tensor to a family. Floating-point tensors arrive in fp64 with infinities replaced by the mean."""


@dataclass(frozen=True)
class InputFamily:
    """One input family."""

    name: str
    """Name in evidence, messages and seeds."""
    cure: str
    """What a kernel that is right on other families has most likely got wrong on this one."""
    change: Change
    changes: frozenset[Structure]
    """Structures of input that the family changes; it leaves all others as they are."""
    makes_equals: bool = False
    """Some of its values, or of the values computed from them, are equal."""
    makes_infinities: bool = False
    """Some of its values are infinite."""
    exact: bool = False
    """Weights are rounded too, so that fp32 sums of products are exact."""

    @property
    def moves_integers(self) -> bool:
        """Whether the family changes integer tensors."""
        return "whole" in self.changes


def _scatter(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Mask of randomly placed elements: at most one in `SPARSE`, at least one."""
    count = max(1, x.numel() // SPARSE)
    at = torch.randint(x.numel(), (count,), generator=generator).to(x.device)
    mask = torch.zeros(x.numel(), dtype=torch.bool, device=x.device)
    mask[at] = True
    return mask.view(x.shape)


def _standard_deviation(x: torch.Tensor) -> torch.Tensor:
    return (x - x.mean()).square().mean().sqrt().clamp_min(1e-6)


def _rms(x: torch.Tensor) -> torch.Tensor:
    return x.square().mean().sqrt().clamp_min(1e-6)


def _negate(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Flip all signs. If all elements have one sign and no zero or symmetry has a meaning, flip a random half."""
    if bool((x < 0).any() & (x > 0).any()) or _has_meaningful_zeros(x) or _is_symmetric(x):
        return -x
    flip = torch.rand(x.shape, generator=generator, dtype=torch.float32).to(x.device) < 0.5
    return torch.where(flip, -x, x)


def _scale_outliers(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Multiply a few elements by a thousand; they keep their sign."""
    factor = torch.full_like(x, 1e3)
    return torch.where(_scatter(x, generator), factor * x, x)


def _round_to_levels(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Round to a few levels, half a standard deviation apart, which every dtype holds exactly."""
    step = 2.0 ** torch.floor(torch.log2(_standard_deviation(x)))
    return torch.round(x / step) * step


def _round_to_integers(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Scale and round to whole numbers of six bits; zeros and symmetry stay.

    Sums of some hundred products exceed float16's range of exact integers and stay far within float32's.
    """
    return torch.round((16 * x / _standard_deviation(x)).clamp(-64, 64))


def _zero_rows(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Set one random index of each of the last two dimensions to zero."""
    x = x.clone()
    for dim in range(max(0, x.dim() - 2), x.dim()):
        if x.shape[dim] > 2:
            x.select(dim, int(torch.randint(x.shape[dim], (1,), generator=generator))).zero_()
    return x


def _draw_wide(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Draw from the whole range of the integer type, without zero (a divisor) and the least value (no negative)."""
    most = torch.iinfo(x.dtype).max
    drawn = torch.randint(1, most, x.shape, generator=generator, dtype=torch.int64).to(x.device)
    if torch.iinfo(x.dtype).min < 0:
        drawn = torch.where(torch.rand(x.shape, generator=generator).to(x.device) < 0.5, -drawn, drawn)
    return drawn.to(x.dtype)


def _has_meaningful_zeros(x: torch.Tensor) -> bool:
    """Whether there are more zeros than a continuous distribution draws: a triangle, a diagonal, a mask."""
    return float((x.reshape(-1)[: 1 << 16] == 0).double().mean()) > 0.05


def _is_symmetric(x: torch.Tensor) -> bool:
    return x.dim() >= 2 and x.shape[-1] == x.shape[-2] > 1 and bool(torch.equal(x, x.transpose(-1, -2)))


def _sums_to_one(x: torch.Tensor) -> bool:
    """Whether the values are probabilities along any one dimension."""
    if x.dim() == 0 or bool((x < 0).any()):
        return False
    return any(
        x.shape[dim] > 1 and bool(torch.allclose(total, torch.ones_like(total), atol=1e-2))
        for dim in range(x.dim())
        if (total := x.sum(dim, dtype=torch.float32)) is not None
    )


def _are_flags(x: torch.Tensor) -> bool:
    """Whether integers are of two distinct values, or all zero, as a few flags may be."""
    distinct = x.unique()
    return distinct.numel() == 2 or distinct.tolist() == [0]


_FREE: frozenset[Structure] = frozenset({"free"})
_FREE_AND_PATTERN: frozenset[Structure] = frozenset({"free", "pattern"})
"""For changes that keep zeros and symmetry."""
_FREE_AND_COUNTS: frozenset[Structure] = frozenset({"free", "counts"})
"""For changes that keep whole numbers whole."""
_ALL_FLOATING: frozenset[Structure] = frozenset({"free", "pattern", "counts"})
_WHOLE: frozenset[Structure] = frozenset({"whole"})

_ROWS = (
    InputFamily(
        "negated",
        "inputs of the other sign, or of both: an activation or clamp that only seemed to be the identity",
        _negate,
        _ALL_FLOATING,
    ),
    InputFamily(
        "tiny",
        "inputs a thousandth as large: an eps left out or in the wrong place",
        lambda x, generator: 1e-3 * x,
        _FREE_AND_PATTERN,
    ),
    InputFamily(
        "large",
        "inputs 64 times as large: an exponential without subtracting the maximum overflows, a narrow type too",
        lambda x, generator: 64.0 * x,
        _ALL_FLOATING,
    ),
    InputFamily(
        "shifted",
        "inputs far from zero: a variance as the difference of two large numbers (E[x^2] - E[x]^2) cancels",
        lambda x, generator: x + 32.0,
        _FREE_AND_COUNTS,
    ),
    InputFamily(
        "huge",  # beyond float16's range
        "inputs of the order of a hundred thousand: an exponential, a square or a narrow type overflows",
        lambda x, generator: 2e5 * x / _rms(x),
        _FREE_AND_PATTERN,
    ),
    InputFamily(
        "sunk",  # below any number that a kernel may use for minus infinity
        "inputs far below zero: a number such as -1e4 taken for minus infinity, a maximum that starts at 0",
        lambda x, generator: x - 3e4,
        _FREE_AND_COUNTS,
    ),
    InputFamily(
        "zero_rows",
        "rows and columns of zeros: a division by a norm, a maximum or a sum that is zero",
        _zero_rows,
        _FREE,
        makes_equals=True,
    ),
    InputFamily(
        "outlier",
        "a few inputs a thousand times as large: a maximum, a norm or a narrow type that they dominate",
        _scale_outliers,
        _FREE,
    ),
    InputFamily(
        "ties",
        "inputs of a few distinct values: an order among equals that differs from PyTorch's",
        _round_to_levels,
        _FREE,
        makes_equals=True,
    ),
    InputFamily(
        "infinite",
        "a few inputs are +inf: infinity times a mask of 0 is NaN; select with tl.where instead",
        lambda x, generator: torch.where(_scatter(x, generator), torch.inf, x),
        _FREE,
        makes_equals=True,
        makes_infinities=True,
    ),
    InputFamily(
        "minus_infinite",
        "a few inputs are -inf: the difference of two infinities is NaN; guard the maximum",
        lambda x, generator: torch.where(_scatter(x, generator), -torch.inf, x),
        _FREE,
        makes_equals=True,
        makes_infinities=True,
    ),
    InputFamily(
        "integers",
        "inputs (and weights) with few significant bits, whose products and sums float32 holds exactly: a "
        "narrow accumulator, a lost or doubled term",
        _round_to_integers,
        _FREE_AND_PATTERN,
        makes_equals=True,
        exact=True,
    ),
    InputFamily(
        "integers_negated",
        "integers of the other sign: unsigned arithmetic, a division that truncates, a maximum from 0",
        lambda x, generator: -x,
        _WHOLE,
        makes_equals=True,
    ),
    InputFamily(
        "integers_wide",
        "integers over all of their type: saturation instead of wrapping, a detour through float32",
        _draw_wide,
        _WHOLE,
        makes_equals=True,
    ),
)
FAMILIES: dict[str, InputFamily] = {family.name: family for family in _ROWS}
"""All input families by name, in the order in which they are judged."""


def families_of(inputs: list[Any]) -> tuple[str, ...]:
    """Names of the families that change at least one of these inputs, in the order in which they are judged.

    Args:
        inputs: as `get_inputs` returns them.
    """
    found = {structure(x) for x in tree_leaves(inputs) if isinstance(x, torch.Tensor)}
    return tuple(family.name for family in FAMILIES.values() if family.changes & found)


def apply(name: str, inputs: list[Any], seed: int, ties: Sequence[Ties] = ()) -> list[Any]:
    """Move inputs to a family. Shapes, dtypes, strides and devices stay; one seed always gives the same values.

    Args:
        name: a key of `FAMILIES`.
        inputs: as `get_inputs` returns them; they are not changed.
        seed: decides where outliers and infinities lie.
        ties: of each tensor; elements that are equal in every draw stay equal.
    """
    family, generator = FAMILIES[name], torch.Generator().manual_seed(seed)
    of_each = iter(ties)

    def move(x: torch.Tensor) -> torch.Tensor:
        tied = next(of_each, None)
        kind = structure(x)
        if kind not in family.changes:
            return x.clone()
        if kind == "whole":
            return sorted_like(family.change(x, generator), x)
        finite = torch.isfinite(x)
        filled = x.double() if bool(finite.all()) else torch.where(finite, x.double(), x[finite].double().mean())
        changed = torch.where(finite, family.change(filled, generator).to(x.dtype), x)
        return keep_ties(sorted_like(changed, x), tied)

    return list(tree_map_only(torch.Tensor, move, list(inputs)))


def structure(x: torch.Tensor) -> Structure:
    """What is visible about the values of one input."""
    if x.numel() < FEW or x.dtype == torch.bool or x.is_complex():
        return "kept"
    if not x.is_floating_point():
        return "kept" if _are_flags(x.reshape(-1)[: 1 << 16]) else "whole"
    finite = torch.isfinite(x)
    if not bool(finite.all()):
        x = x[finite]
        if x.numel() < FEW:
            return "kept"
    sample = x.reshape(-1)[: 1 << 16]
    distinct = sample.unique().numel()
    if distinct <= 4 or _sums_to_one(x):
        return "kept"
    if bool((sample == sample.round()).all()):
        return "counts" if distinct > LABELS else "kept"
    return "pattern" if _has_meaningful_zeros(x) or _is_symmetric(x) else "free"
