"""Input families: what a kernel must also get right beside the distribution that `get_inputs` draws.

Benchmarks draw almost everything from [0, 1): there a ReLU is the identity, a softmax without its maximum does not
overflow, and an fp16 accumulator is good enough. Each family moves the drawn inputs to where such shortcuts show.
It keeps the form of every input, what is visibly structured about it, infinities where they are, and boolean tensors;
integers move in families of their own. Whether a problem can be judged on a family at all is asked of PyTorch
(`problem.family_case`), never assumed.

NaN is no family: `tl.maximum` and `tl.max` drop it where PyTorch hands it on, and no user of a kernel relies on that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

AS_GIVEN = "as given"
"""get_inputs' own distribution."""
FEW = 16
"""Tensors of fewer elements are numbers (a scale, a temperature); they keep their distribution."""
SPARSE = 256
"""One element in this many is an outlier or infinite, and one at least."""
TINY, LARGE, OUTLIER, SHIFT = 1e-3, 64.0, 1e3, 32.0
HUGE, SUNK = 2e5, -3e4
"""Beyond float16's range; and below any number that a kernel may have taken for minus infinity."""

WRONG_HERE = {
    "negated": "inputs of the other sign, or of both: an activation or clamp that only seemed to be the identity",
    "tiny": "inputs a thousandth as large: an eps left out or in the wrong place",
    "large": "inputs 64 times as large: an exponential without subtracting the maximum overflows, a narrow type too",
    "shifted": "inputs far from zero: a variance as the difference of two large numbers (E[x^2] - E[x]^2) cancels",
    "huge": "inputs of the order of a hundred thousand: an exponential, a square or a narrow type overflows",
    "sunk": "inputs far below zero: a number such as -1e4 taken for minus infinity, a maximum that starts at 0",
    "zero_rows": "rows and columns of zeros: a division by a norm, a maximum or a sum that is zero",
    "outlier": "a few inputs a thousand times as large: a maximum, a norm or a narrow type that they dominate",
    "ties": "inputs of a few distinct values: an order among equals that differs from PyTorch's",
    "infinite": "a few inputs are +inf: infinity times a mask of 0 is NaN; select with tl.where instead",
    "minus_infinite": "a few inputs are -inf: the difference of two infinities is NaN; guard the maximum",
    "integers": "inputs (and weights) with few significant bits, whose products and sums float32 holds exactly: a "
    "narrow accumulator, a lost or doubled term",
    "integers_negated": "integers of the other sign: unsigned arithmetic, a division that truncates, a maximum from 0",
    "integers_wide": "integers over all of their type: saturation instead of wrapping, a detour through float32",
}
"""What a kernel that is right on other families has most likely got wrong here: the cure to tell."""
NAMES = tuple(WRONG_HERE)
_WITH_STRUCTURE = frozenset({"negated", "tiny", "large", "huge", "integers"})
"""Those that keep zeros and symmetry where they are."""
_OF_COUNTS = frozenset({"negated", "large", "shifted", "sunk"})
"""Those that leave whole numbers whole."""
LABELS = 8
"""Whole numbers of so few kinds may be labels."""
OF_INTEGERS = frozenset({"integers_negated", "integers_wide"})
"""Those that move integers, and nothing else."""


def families_of(inputs: list[Any]) -> tuple[str, ...]:
    """Names of the families that change at least one of these inputs, in the order they are judged.

    Args:
        inputs: as `get_inputs` gives them.
    """
    kinds = {structure(x) for x in tree_leaves(inputs) if isinstance(x, torch.Tensor)}
    moved: frozenset[str] = frozenset(NAMES) - OF_INTEGERS if "free" in kinds else frozenset()
    moved |= _WITH_STRUCTURE if "pattern" in kinds else frozenset()
    moved |= _OF_COUNTS if "counts" in kinds else frozenset()
    moved |= OF_INTEGERS if "whole" in kinds else frozenset()
    return tuple(name for name in NAMES if name in moved)


def apply(name: str, inputs: list[Any], seed: int) -> list[Any]:
    """The same inputs moved to a family: same shapes, dtypes, strides and devices; always the same for one seed.

    Args:
        name: one of `NAMES`.
        inputs: as `get_inputs` gives them; they are not changed.
        seed: decides where outliers and infinities lie.
    """
    generator = torch.Generator().manual_seed(seed)

    def move(x: torch.Tensor) -> torch.Tensor:
        kind = structure(x)
        if kind == "whole" and name in OF_INTEGERS:
            return torch.empty_like(x).copy_(_INTEGER_CHANGES[name](x, generator))
        keeping = {"pattern": _WITH_STRUCTURE, "counts": _OF_COUNTS}.get(kind, frozenset[str]())
        if name in OF_INTEGERS or not (kind == "free" or name in keeping):
            return x.clone()
        finite = torch.isfinite(x)
        filled = x.double() if bool(finite.all()) else torch.where(finite, x.double(), x[finite].double().mean())
        changed = _CHANGES[name](filled, generator).to(x.dtype)
        return torch.empty_like(x).copy_(torch.where(finite, changed, x))  # keeps the strides of a dense tensor

    return list(tree_map_only(torch.Tensor, move, list(inputs)))


def structure(x: torch.Tensor) -> str:
    """What is visible about the values of one input.

    `free`: any values make sense; `pattern`: zeros or symmetry have a meaning; `counts`: whole numbers with a point, of
    more kinds than labels are; `whole`: integers; `kept`, left as it is: booleans, numbers, labels and probabilities.
    """
    if x.numel() < FEW or x.dtype == torch.bool or x.is_complex():
        return "kept"
    if not x.is_floating_point():
        return "whole"
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
    return "pattern" if _meaningful_zeros(x) or _symmetric(x) else "free"


def _meaningful_zeros(x: torch.Tensor) -> bool:
    """More zeros than a continuous draw has: a triangle, a diagonal, a mask."""
    return float((x.reshape(-1)[: 1 << 16] == 0).double().mean()) > 0.05


def _sums_to_one(x: torch.Tensor) -> bool:
    """Probabilities along any one dimension."""
    if x.dim() == 0 or bool((x < 0).any()):
        return False
    return any(
        x.shape[dim] > 1 and bool(torch.allclose(total, torch.ones_like(total), atol=1e-2))
        for dim in range(x.dim())
        if (total := x.sum(dim, dtype=torch.float32)) is not None
    )


def _symmetric(x: torch.Tensor) -> bool:
    return x.dim() >= 2 and x.shape[-1] == x.shape[-2] > 1 and bool(torch.equal(x, x.transpose(-1, -2)))


# ---------------------------------------------------------------------------------------------------- changes


def _scattered(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Mask of a few elements; at most one in `SPARSE`, at least one."""
    count = max(1, x.numel() // SPARSE)
    at = torch.randint(x.numel(), (count,), generator=generator).to(x.device)
    mask = torch.zeros(x.numel(), dtype=torch.bool, device=x.device)
    mask[at] = True
    return mask.view(x.shape)


def _spread(x: torch.Tensor) -> torch.Tensor:
    return (x - x.mean()).square().mean().sqrt().clamp_min(1e-6)


def _rms(x: torch.Tensor) -> torch.Tensor:
    return x.square().mean().sqrt().clamp_min(1e-6)


def _negated(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """The other sign; where all have one sign and no zero has a meaning, that of half the elements at random."""
    if bool((x < 0).any() & (x > 0).any()) or _meaningful_zeros(x) or _symmetric(x):
        return -x
    flip = torch.rand(x.shape, generator=generator, dtype=torch.float32).to(x.device) < 0.5
    return torch.where(flip, -x, x)


def _outliers(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Outliers that keep their sign."""
    factor = torch.full_like(x, OUTLIER)
    return torch.where(_scattered(x, generator), factor * x, x)


def _ties(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """A handful of levels, half a standard deviation apart; exact in every dtype."""
    step = 2.0 ** torch.floor(torch.log2(_spread(x)))
    return torch.round(x / step) * step


def _integers(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Whole numbers of six bits, zeros and symmetry kept: sums of some hundred products leave float16's range of
    exact integers, and stay far within float32's."""
    return torch.round((16 * x / _spread(x)).clamp(-64, 64))


def _zero_rows(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """One index of each of the last two dimensions is zero everywhere."""
    x = x.clone()
    for dim in range(max(0, x.dim() - 2), x.dim()):
        if x.shape[dim] > 2:
            x.select(dim, int(torch.randint(x.shape[dim], (1,), generator=generator))).zero_()
    return x


def _wide(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Anything that the type holds, the least number apart (its negative is none), and no zero, for divisors' sake."""
    most = torch.iinfo(x.dtype).max
    drawn = torch.randint(1, most, x.shape, generator=generator, dtype=torch.int64).to(x.device)
    if torch.iinfo(x.dtype).min < 0:
        drawn = torch.where(torch.rand(x.shape, generator=generator).to(x.device) < 0.5, -drawn, drawn)
    return drawn.to(x.dtype)


_INTEGER_CHANGES: dict[str, Callable[[torch.Tensor, torch.Generator], torch.Tensor]] = {
    "integers_negated": lambda x, generator: -x,
    "integers_wide": _wide,
}
_CHANGES: dict[str, Callable[[torch.Tensor, torch.Generator], torch.Tensor]] = {
    "negated": _negated,
    "tiny": lambda x, generator: TINY * x,
    "large": lambda x, generator: LARGE * x,
    "shifted": lambda x, generator: x + SHIFT,
    "huge": lambda x, generator: HUGE * x / _rms(x),
    "sunk": lambda x, generator: x + SUNK,
    "zero_rows": _zero_rows,
    "outlier": _outliers,
    "ties": _ties,
    "infinite": lambda x, generator: torch.where(_scattered(x, generator), torch.inf, x),
    "minus_infinite": lambda x, generator: torch.where(_scattered(x, generator), -torch.inf, x),
    "integers": _integers,
}
