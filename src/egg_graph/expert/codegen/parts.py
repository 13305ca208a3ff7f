"""Moments of parts: what the pieces of a channel leave of themselves, from which its mean and variance are joined.

Three operators of our own stand in the graph that kernels are planned from, in place of means and variances by channel:

    parts(x, by_sample)         [outer, channels, parts, 4]: count, mean in two numbers, squared deviations from it
    mean_of_parts(parts)        of every channel, or of every group of a sample's channels
    var_of_parts(parts, correction)

Of how many parts they are made is left to the kernel that makes them; in the graph there is one. So a convolution can
leave them of each tile while it is in registers, and its output is not read again for them.
"""

from egg_graph.expert.capture.graph import CapturedGraph, Node
from egg_graph.expert.capture.rewrite import new_node, refer
from egg_graph.expert.codegen.reductions import correction, dimensions_of, is_reduction

PARTS = "expert.parts.default"
MEAN, VAR = "expert.mean_of_parts.default", "expert.var_of_parts.default"
OF_PARTS = (MEAN, VAR)
NUMBERS = 4
"""Numbers of a part: count, mean, what rounding took from the mean, squared deviations."""


def is_statistic(graph: CapturedGraph, node: Node) -> bool:
    """Return whether a node is a mean or variance over all dimensions but the second of at least three."""
    if not is_reduction(node) or node.base not in ("mean", "var") or not node.is_float:
        return False
    rank = graph[node.inputs[0]].rank
    return rank >= 3 and dimensions_of(node, rank) == set(range(rank)) - {1}


def is_by_sample(parts: Node) -> bool:
    """Return whether parts are of a sample's channels, and not of a channel of all samples."""
    return bool(parts.args[1])


def parts_of(x: Node, name: str, *, by_sample: bool) -> Node:
    """Return the node of a tensor's parts."""
    shapes = tuple((shape[0] if by_sample else 1, shape[1], 1, NUMBERS) for shape in x.shapes)
    return new_node(name, PARTS, (refer(x), by_sample), shapes)


def of_parts(node: Node, parts: Node) -> Node:
    """Return the node that computes a mean or variance from parts, with the name and shape of the one it replaces."""
    op, more = (MEAN, ()) if node.base == "mean" else (VAR, (correction(node),))
    made = new_node(node.name, op, (refer(parts), *more), node.shapes)
    return made.model_copy(update={"dtype": node.dtype})
