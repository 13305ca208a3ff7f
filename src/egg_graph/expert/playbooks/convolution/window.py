"""A reduction of what a convolution's tail computed over windows of pixels that lie side by side.

A maximum pooling is one, and a minimum, maximum, sum or mean along leading dimensions, such as the depth.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from egg_graph.expert.capture.graph import CapturedGraph, Node
from egg_graph.expert.codegen.reductions import dimensions_of
from egg_graph.expert.playbooks.pooling.match import Pooling, pooling_at

WHOLE = 0
"""In place of a window's size: all of the dimension."""
RUNS = (1, 2, 4)
"""Neighbours of a line that a window may have: they have to be in one program's run of outputs."""
MISREDUCED_RUN = 4
"""Triton 3.6 reduces wrong elements of a product's tile that was reshaped to runs of this length: on H100 in each of 14
cases tried, in none of 28 with runs of 2 and 8. Reduced along the run alone the tile was right."""
JOINED = {"amax": "tl.maximum({0}, {1})", "amin": "tl.minimum({0}, {1})", "sum": "{0} + {1}", "mean": "{0} + {1}"}
NEUTRAL = {"amax": 'float("-inf")', "amin": 'float("inf")', "sum": "0.0", "mean": "0.0"}


@dataclass(frozen=True)
class Window:
    """One such reduction."""

    node: Node
    kind: str
    """A key of `JOINED`."""
    sizes: tuple[int, ...]
    """By spatial dimension; `WHOLE` for all of it."""
    dropped: tuple[int, ...]
    """Spatial dimensions that the result no longer has."""

    @property
    def along_line(self) -> int:
        """Neighbours of a line in one window."""
        return self.sizes[-1]


def window_at(graph: CapturedGraph, anchor: Node, node: Node) -> Window | None:
    """Return the window reduction of a tensor in the shape of a convolution's output; None where a node is none."""
    if not node.is_float or not node.inputs or graph[node.inputs[0]].shapes != anchor.shapes:
        return None
    rank = anchor.rank - 2
    pooling = pooling_at(graph, node.name)
    if pooling is not None:
        fits = pooling.rank == rank and _lies_side_by_side(pooling)
        return Window(node, "amax", tuple(taps[0] for taps in pooling.taps), ()) if fits else None
    if node.base not in JOINED or rank == 1:
        return None
    dims = {d - 2 for d in dimensions_of(node, anchor.rank)}
    if not dims or not dims <= set(range(rank - 1)):
        return None
    sizes = tuple(WHOLE if d in dims else 1 for d in range(rank))
    return Window(node, node.base, sizes, tuple(sorted(dims)) if node.rank < anchor.rank else ())


def anchor_of(graph: CapturedGraph, convolution: Node, chain: Iterable[str]) -> Node:
    """Return the node whose shape a convolution's tail has at the end of a chain: its window, or the convolution."""
    return next((graph[name] for name in chain if window_at(graph, convolution, graph[name])), convolution)


def _lies_side_by_side(pooling: Pooling) -> bool:
    """Return whether a pooling takes the maximum of whole windows without gaps, of the same size in every capture."""
    plain = pooling.is_max and not pooling.ceil and not any(map(any, pooling.padding))
    dense = pooling.taps == pooling.stride and all(set(d) == {1} for d in pooling.dilation)
    return plain and dense and all(len(set(t)) == 1 for t in pooling.taps) and pooling.taps[-1][0] in RUNS
