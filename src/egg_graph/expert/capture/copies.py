"""Leave copies out that change nothing: a dropout of probability 0 is one, and would part an attention in two."""

from typing import Any

from egg_graph.expert.capture.graph import VIEWS, CapturedGraph, Node
from egg_graph.expert.capture.rewrite import with_nodes

COPY = "a copy of a tensor that nothing writes to is that tensor"
ALIASES = VIEWS | {"transpose", "permute", "t", "slice", "select", "expand", "getitem", "split", "chunk", "unbind"}
"""Operators whose result may be memory of their operand."""


def leave_copies_out(graph: CapturedGraph) -> CapturedGraph:
    """Return the graph without the copies of computed tensors that keep the order in memory, and the proof.

    A copy that the forward returns stays, and one of what may be memory of an input or a buffer.
    """
    same: dict[str, str] = {}
    for node in graph.nodes:
        if _changes_nothing(graph, node):
            same[node.name] = same.get(node.inputs[0], node.inputs[0])
    if not same:
        return graph
    kept = (_renamed(node, same) for node in graph.nodes if node.name not in same)
    return with_nodes(graph, kept, COPY)


def _changes_nothing(graph: CapturedGraph, node: Node) -> bool:
    if node.base != "clone" or len(node.inputs) != 1 or node.name in graph.returned:
        return False
    if node.name in graph.mutations.values() or graph.is_placeholder(node.inputs[0]):
        return False
    source = graph[node.inputs[0]]
    return source.base not in ALIASES - {"clone"} and (source.stride, source.dtype) == (node.stride, node.dtype)


def _renamed(node: Node, same: dict[str, str]) -> Node:
    if not same.keys() & set(node.inputs):
        return node
    return node.model_copy(
        update={"args": tuple(_read(a, same) for a in node.args), "kwargs": _read(node.kwargs, same)}
    )


def _read(arg: Any, same: dict[str, str]) -> Any:
    """Return an argument that reads the copied tensors where it read their copies."""
    if isinstance(arg, dict):
        return {k: same.get(v, v) if k == "node" else _read(v, same) for k, v in arg.items()}
    return [_read(a, same) for a in arg] if isinstance(arg, list) else arg
