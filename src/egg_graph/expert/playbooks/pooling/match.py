"""Recognise a pooling: its window, as numbers by dimension and capture."""

from dataclasses import dataclass

from egg_graph.expert.capture.graph import CapturedGraph, Node, by_dimension
from egg_graph.expert.codegen.expressions import FLOATS
from egg_graph.expert.codegen.indexing import Vector

RANKS = {f"{kind}_pool{rank}d": rank for kind in ("max", "avg") for rank in (1, 2, 3)}
"""Number of spatial dimensions, by operator."""


@dataclass(frozen=True)
class Pooling:
    """Maximum or mean over windows: x [..., *in] -> [..., *out]."""

    node: Node
    x: str
    taps: tuple[Vector, ...]
    """Sizes of the window by dimension and capture, like the three below."""
    stride: tuple[Vector, ...]
    padding: tuple[Vector, ...]
    dilation: tuple[Vector, ...]
    is_max: bool
    ceil: bool
    """Whether a last window may reach beyond the padded input."""
    counts_padding: bool
    """Whether a mean divides by padded places too."""
    divisor: float | None
    """What a mean divides by; None for the window's size."""

    @property
    def rank(self) -> int:
        return len(self.taps)

    @property
    def is_partition(self) -> bool:
        """Whether no element lies in two windows, in any capture."""
        apart = all(s >= t for taps, stride in zip(self.taps, self.stride, strict=True)
                    for t, s in zip(taps, stride, strict=True))  # fmt: skip
        return apart and all(set(d) == {1} for d in self.dilation)

    def is_bounded(self, dim: int) -> bool:
        """Return whether windows can reach outside the input in this dimension."""
        return self.ceil or any(self.padding[dim])


def pooling_at(graph: CapturedGraph, name: str) -> Pooling | None:
    """Return the pooling at a node; None where there is none, or its numbers are unknown."""
    node = graph[name]
    if node.base not in RANKS or not node.shapes or node.dtype not in FLOATS or graph.is_placeholder(name):
        return None
    rank, is_max = RANKS[node.base], node.base.startswith("max")
    names = ["x", "taps", "stride", "padding"]
    names += ["dilation", "ceil_mode"] if is_max else ["ceil_mode", "count_include_pad", "divisor_override"]
    given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    taps = by_dimension(given.get("taps"), rank, len(node.shapes), 1)
    rest = [by_dimension(given.get(n), rank, len(node.shapes), d) for n, d in (("padding", 0), ("dilation", 1))]
    stride = by_dimension(given.get("stride"), rank, len(node.shapes), 1) if given.get("stride") else taps
    divisor = given.get("divisor_override")
    if taps is None or stride is None or rest[0] is None or rest[1] is None or graph[node.inputs[0]].rank < rank + 1:
        return None
    if divisor is not None and not isinstance(divisor, int | float):
        return None
    return Pooling(
        node, node.inputs[0], taps, stride, rest[0], rest[1], is_max, bool(given.get("ceil_mode", False)),
        bool(given.get("count_include_pad", True)), None if divisor is None else float(divisor),
    )  # fmt: skip
