"""What every fold of a captured graph needs: whose value may go, new nodes, and the graph with them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import JsonValue

from egg_graph.expert.capture.graph import CapturedGraph, Node

Shapes = tuple[tuple[int, ...], ...]
"""One shape per capture."""


def is_private(graph: CapturedGraph, node: Node) -> bool:
    """Return whether one operator alone reads a node, and the forward does not return it."""
    return not graph.is_placeholder(node.name) and len(graph.users[node.name]) == 1 and node.name not in graph.returned


def refer(node: Node) -> JsonValue:
    """Write a node as an argument."""
    return {"node": node.name}


def renamed(tree: Any, names: Mapping[str, str]) -> Any:
    """Return an argument, or a list or dict of them, with the new name of each node that it reads."""
    if isinstance(tree, dict):
        return {k: names.get(v, v) if k == "node" else renamed(v, names) for k, v in tree.items()}
    return [renamed(v, names) for v in tree] if isinstance(tree, list) else tree


def number(values: tuple[int, ...]) -> JsonValue:
    """Write an integer of every capture as an argument."""
    return values[0] if len(set(values)) == 1 else {"sizes": list(values)}


def new_node(name: str, op: str, args: tuple[JsonValue, ...], shapes: Shapes) -> Node:
    """Return an fp32 node whose elements lie in row-major order.

    Args:
        op: `aten.<name>.<overload>`; `aten.` may be left out. Or an operator of our own, `expert.<name>.default`.
    """
    stride = [1] * len(shapes[0])
    for dim in range(len(stride) - 1, 0, -1):
        stride[dim - 1] = stride[dim] * shapes[0][dim]
    op = op if op.startswith(("aten.", "expert.")) else f"aten.{op}"
    return Node(name=name, op=op, args=args, shapes=shapes, dtype="float32", stride=tuple(stride))


def are_new(graph: CapturedGraph, made: Sequence[Node]) -> bool:
    """Return whether no new node but the last, which stands for an old one, has the name of a node of the graph."""
    return not any(node.name in graph.by_name for node in made[:-1])


def replace(graph: CapturedGraph, gone: set[str], end: str, made: Sequence[Node], proof: str) -> CapturedGraph:
    """Return the graph with new nodes where `end` was, without those that are gone, and a proof more."""
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.name == end:
            nodes += made
        elif node.name not in gone:
            nodes.append(node)
    return with_nodes(graph, nodes, proof)


def with_nodes(graph: CapturedGraph, nodes: Iterable[Node], proof: str) -> CapturedGraph:
    """Return the graph with other nodes, and a proof more."""
    fields = {name: getattr(graph, name) for name in CapturedGraph.model_fields}
    return CapturedGraph(**{**fields, "nodes": tuple(nodes), "proofs": (*graph.proofs, proof)})
