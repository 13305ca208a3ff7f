"""Leave copies out that change nothing: a dropout of probability 0 is one, and would part an attention in two."""

from egg_graph.expert.capture.graph import VIEWS, CapturedGraph, Node
from egg_graph.expert.capture.rewrite import renamed, with_nodes

COPY = "a copy of a tensor that nothing writes to is that tensor"
MOVES = {"transpose", "permute", "t", "slice", "select", "expand", "getitem", "split", "chunk", "unbind"}
ALIASES = (VIEWS | MOVES) - {"clone"}
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
    kept = (
        node.model_copy(update={"args": tuple(renamed([*node.args], same)), "kwargs": renamed(node.kwargs, same)})
        for node in graph.nodes
        if node.name not in same
    )
    return with_nodes(graph, kept, COPY)


def _changes_nothing(graph: CapturedGraph, node: Node) -> bool:
    if node.base != "clone" or len(node.inputs) != 1 or node.name in graph.returned:
        return False
    source = graph[node.inputs[0]]
    computed = not graph.is_placeholder(source.name) and source.base not in ALIASES
    return computed and (source.stride, source.dtype) == (node.stride, node.dtype)
