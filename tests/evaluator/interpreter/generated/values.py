"""Input tensors made from a seed, with the values at which arithmetic has its edges.

`numpy.random.RandomState` gives the same numbers under every version of numpy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
FLOAT8 = ("float8_e5m2", "float8_e4m3fn")
ALL = (*INTEGERS, *FLOATS)
_TINY = {"float16": 2.0**-24, "bfloat16": 2.0**-133, "float32": 2.0**-149, "float64": 2.0**-1074}
_NORMAL = {"float16": 2.0**-14, "bfloat16": 2.0**-126, "float32": 2.0**-126, "float64": 2.0**-1022}
_LARGEST = {
    "float16": 65504.0,
    "bfloat16": float(2 - 2.0**-7) * 2.0**127,
    "float32": float(np.finfo(np.float32).max),
    "float64": float(np.finfo(np.float64).max),
    "float8_e5m2": 57344.0,
    "float8_e4m3fn": 448.0,
}


@dataclass(frozen=True)
class Draw:
    """One input tensor: torch's name of its dtype, its shape, how its numbers are drawn, and the seed."""

    dtype: str
    shape: tuple[int, ...]
    kind: str
    seed: int

    def tensor(self) -> Any:
        """Draw it, as a CPU tensor."""
        import torch

        random = np.random.RandomState(self.seed)
        count = int(np.prod(self.shape))
        if self.dtype == "bool":
            return torch.from_numpy(random.randint(0, 2, count).astype(bool)).reshape(self.shape)
        if self.dtype in INTEGERS:
            return torch.from_numpy(_integers(random, self.kind, self.dtype, count)).reshape(self.shape)
        numbers = torch.from_numpy(_floats(random, self.kind, self.dtype, count))
        return numbers.to(getattr(torch, self.dtype)).reshape(self.shape)


def _integers(random: Any, kind: str, dtype: str, count: int) -> np.ndarray:
    """Draw integers.

    `edges` and `nonzero` are bits with the extremes among them, `shift` the places of a bit, `beyond` those beyond the
    width too, `below N` indices, `permutation` each index once, `few` with many equals, `small` from -9 (or 0) to 9.
    """
    target = np.dtype(dtype)
    limits = np.iinfo(target)
    name, _, number = kind.partition(" ")
    if name == "permutation":
        return random.permutation(count).astype(target)
    bounds = {"below": (0, int(number or 1)), "shift": (0, limits.bits), "beyond": (0, limits.bits + 20)}
    small = {"small": 9, "few": 2, "castable": 100, "unit": 1, "finite": 100, "positive": 100}
    if name in bounds:
        return random.randint(*bounds[name], size=count).astype(target)
    if name in small:
        lowest = 1 if name == "positive" else -small[name] if limits.min < 0 else 0
        return random.randint(lowest, small[name] + 1, size=count).astype(target)
    values = np.frombuffer(random.bytes(count * target.itemsize), target).copy()
    edges = [limits.max, limits.min, 1, limits.max - 1, limits.min + 1, 2, 3, limits.max // 2]
    edges += [-1, -2] if limits.min < 0 else []
    edges += [0] if name != "nonzero" else []
    _sprinkle(random, values, np.array(edges, target))
    if name == "nonzero":
        values[values == 0] = 5
    return values


def _floats(random: Any, kind: str, dtype: str, count: int) -> np.ndarray:
    """Draw floats, held in fp64.

    `edges` are normal numbers with zeros, infinities, NaN, denormals and the extremes among them; `finite` lie within
    four, `unit` within one, `positive` in (0, 8], `wide` over many orders; `small`, `few`, `castable` are integers;
    `zeros` have both signs.
    """
    if kind in ("small", "few", "castable", "positive integers"):
        lowest, highest = {"small": (-9, 9), "few": (-2, 2), "castable": (-100, 100)}.get(kind, (0, 100))
        return random.randint(lowest, highest + 1, size=count).astype(np.float64)
    if kind.startswith("below"):
        return random.randint(0, int(kind.split()[1]), size=count).astype(np.float64)
    if kind == "zeros":
        return np.where(random.randint(0, 2, count) == 0, 0.0, -0.0)
    if kind == "unit":
        return random.uniform(-1, 1, count)
    if kind == "positive":
        return random.uniform(2.0**-6, 8, count)
    if kind == "halves":
        return random.randint(-40, 41, size=count) / 4.0
    if kind == "wide":
        return random.uniform(-1, 1, count) * 2.0 ** random.randint(-12, 12, size=count)
    values = np.clip(random.standard_normal(count) * 2, -4, 4)
    if kind == "finite":
        return values
    if kind != "edges":
        raise ValueError(f"unknown kind of values: {kind}")
    largest = _LARGEST[dtype]
    edges = [0.0, -0.0, 1.0, -1.0, 0.5, -2.0, largest, -largest, np.nan]
    if dtype != "float8_e4m3fn":
        edges += [np.inf, -np.inf]
    if dtype in _TINY:
        edges += [_TINY[dtype], -_TINY[dtype], 3 * _TINY[dtype], _NORMAL[dtype], -_NORMAL[dtype], largest / 2]
    _sprinkle(random, values, np.array(edges))
    return values


def _sprinkle(random: Any, values: np.ndarray, edges: np.ndarray) -> None:
    """Put each edge at a place of its own, as far as half of the places suffice, and then a few at any."""
    places = random.permutation(len(values))[: max(1, len(values) // 2)]
    chosen = np.resize(random.permutation(edges), len(places)) if len(places) < len(edges) else edges
    values[places[: len(chosen)]] = chosen[: len(places)]
