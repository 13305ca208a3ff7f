"""An average pooling that divides each window by its size, and an average of averages as one pooling.

Where the windows of the first pooling lie side by side, an average over q of its results, r apart, is an average over
as many times more places: of n places the first leaves floor(n / w), the second floor((floor(n / w) - q) / r) + 1 =
floor((n - w q) / (w r)) + 1.
"""

from dataclasses import dataclass

from egg_graph.expert.capture.graph import CapturedGraph, Node, by_dimension
from egg_graph.expert.capture.rewrite import is_private, number, refer, replace

POOLINGS = {"avg_pool1d": 1, "avg_pool2d": 2, "avg_pool3d": 3}
PARAMETERS = ("x", "window", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override")
Numbers = tuple[tuple[int, ...], ...]
"""Integers by dimension and capture."""


@dataclass(frozen=True)
class Average:
    """A pooling without padding, whose windows all lie inside x."""

    node: Node
    x: Node
    window: Numbers
    stride: Numbers

    @property
    def rank(self) -> int:
        """Number of spatial dimensions."""
        return len(self.window)


def average_at(graph: CapturedGraph, node: Node) -> Average | None:
    """Return the average pooling at a node; None where it is none, or pads, or divides by another number."""
    rank = POOLINGS.get(node.base)
    if rank is None or not node.shapes or graph.is_placeholder(node.name):
        return None
    given = {**dict(zip(PARAMETERS, node.args, strict=False)), **node.kwargs}
    captures, x = len(node.shapes), graph[node.inputs[0]]
    window = by_dimension(given.get("window"), rank, captures, 1)
    stride = by_dimension(given["stride"], rank, captures, 1) if given.get("stride") else window
    padding = by_dimension(given.get("padding"), rank, captures, 0)
    plain = not given.get("ceil_mode") and given.get("divisor_override") is None and x.rank == rank + 2
    if not plain or window is None or stride is None or padding is None or any(map(any, padding)):
        return None
    return Average(node, x, window, stride)


def join_averages(graph: CapturedGraph) -> CapturedGraph:
    """Return the graph with every average of averages as one pooling, and the proof of each."""
    for node in graph.nodes:
        second = average_at(graph, node)
        first = average_at(graph, second.x) if second is not None else None
        if second is None or first is None or first.rank != second.rank:
            continue
        if first.window != first.stride or not is_private(graph, first.node) or node.dtype != "float32":
            continue
        window, stride = (_times(first.window, other) for other in (second.window, second.stride))
        args = (refer(first.x), *([number(n) for n in numbers] for numbers in (window, stride)))
        joined = node.model_copy(update={"args": args, "kwargs": {}})
        proof = (
            f"an average of {times(second.window)} averages of {times(first.window)} places side by side: the average "
            f"of all {times(window)} places"
        )
        return join_averages(replace(graph, {first.node.name}, node.name, [joined], proof))
    return graph


def times(numbers: Numbers) -> str:
    """Write sizes at full shape: `2 x 2`."""
    return " x ".join(str(sizes[0]) for sizes in numbers)


def _times(first: Numbers, second: Numbers) -> Numbers:
    return tuple(tuple(a * b for a, b in zip(*pair, strict=True)) for pair in zip(first, second, strict=True))
