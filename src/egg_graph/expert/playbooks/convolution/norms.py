"""Norms whose statistics are joined from moments of parts: batch norms, and group norms behind a convolution.

A convolution leaves the moments of its tiles. Of a batch norm behind anything else a pass of its own makes them; a
group norm behind anything else is a reduction of rows.
"""

from egg_graph.expert.capture.graph import VIEWS, CapturedGraph, Node
from egg_graph.expert.codegen.expressions import is_pointwise
from egg_graph.expert.codegen.parts import is_statistic, of_parts, parts_of
from egg_graph.expert.codegen.reductions import dimensions_of
from egg_graph.expert.playbooks.convolution.match import convolution_at
from egg_graph.expert.playbooks.convolution.playbook import leaves_moments


def take_parts(graph: CapturedGraph) -> CapturedGraph:
    """Return the graph with parts ahead of every such statistic."""
    made: dict[tuple[str, bool], Node] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        source = _normed(graph, node)
        if source is None:
            nodes.append(node)
            continue
        by_sample = not is_statistic(graph, node)
        key = (source.name, by_sample)
        if key not in made:
            name = _fresh(graph, f"{source.name}_{'sample_parts' if by_sample else 'parts'}")
            made[key] = parts_of(source, name, by_sample=by_sample)
            nodes.append(made[key])
        nodes.append(of_parts(node, made[key]))
    if not made:
        return graph
    fields = {name: getattr(graph, name) for name in CapturedGraph.model_fields}
    return CapturedGraph(**{**fields, "nodes": tuple(nodes)})


def _normed(graph: CapturedGraph, node: Node) -> Node | None:
    """Return the tensor [samples, channels, ...] that a statistic is of; None where a node is none."""
    if is_statistic(graph, node):
        return graph[node.inputs[0]]
    if node.base not in ("mean", "var") or not node.is_float or not node.inputs:
        return None
    grouped = graph[node.inputs[0]]
    if grouped.base not in VIEWS or grouped.rank != 3 or dimensions_of(node, 3) != {2}:
        return None
    if not {"mean", "var"} <= {graph[user].base for user in graph.users[grouped.name]}:
        return None
    x = graph[grouped.inputs[0]]
    if x.rank < 3 or x.size(0) != grouped.size(0) or not _splits_channels(x, grouped):
        return None
    return x if _follows_a_convolution(graph, x) else None


def _splits_channels(x: Node, grouped: Node) -> bool:
    """Return whether a view [samples, groups, rest] of x has whole channels in each group."""
    return all(channels % groups == 0 for channels, groups in zip(x.size(1), grouped.size(1), strict=True))


def _follows_a_convolution(graph: CapturedGraph, x: Node) -> bool:
    """Return whether a tensor is elementwise work on the output of a convolution that leaves its tiles' moments."""
    pending, seen, found = [x.name], {x.name}, set()
    while pending:
        node = graph[pending.pop()]
        if not is_pointwise(node):
            found.add(node.name)
            continue
        made = (name for name in node.inputs if graph[name].shapes == x.shapes and not graph.is_placeholder(name))
        new = [name for name in made if name not in seen]
        pending += new
        seen.update(new)
    convolution = convolution_at(graph, *found) if len(found) == 1 and not graph.is_placeholder(*found) else None
    return convolution is not None and leaves_moments(graph, convolution)


def _fresh(graph: CapturedGraph, name: str) -> str:
    while name in graph.by_name:
        name += "_"
    return name
