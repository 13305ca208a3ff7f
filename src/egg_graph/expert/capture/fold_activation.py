"""Join operators that are one activation: x tanh(softplus(x)) is mish(x), which takes one exponential and one division.

The kernel's formula for mish is shorter and closer to the exact value than the chain, which rounds between its steps.
"""

from egg_graph.expert.capture.graph import CapturedGraph, Node
from egg_graph.expert.capture.rewrite import is_private, with_nodes

MISH = "x tanh(softplus(x)) = mish(x), by definition"
USUAL = (1, 20)
"""Beta and threshold of a softplus that is called without them."""


def join_mish(graph: CapturedGraph) -> CapturedGraph:
    """Return the graph with mish in the place of every such chain whose steps nothing else reads, and the proof."""
    joined: dict[str, Node] = {}
    gone: set[str] = set()
    for product in graph.nodes:
        chain = _chain_to(graph, product)
        if chain is not None:
            tanh, softplus = chain
            joined[product.name] = product.model_copy(update={"op": "aten.mish.default", "args": softplus.args[:1]})
            gone |= {tanh.name, softplus.name}
    if not joined:
        return graph
    return with_nodes(graph, (joined.get(node.name, node) for node in graph.nodes if node.name not in gone), MISH)


def _chain_to(graph: CapturedGraph, product: Node) -> tuple[Node, Node] | None:
    """Return tanh and softplus of a product x tanh(softplus(x)), in either order of factors; None for another."""
    if product.op != "aten.mul.Tensor" or product.kwargs or len(product.inputs) != 2:
        return None
    for tanh in (graph[name] for name in product.inputs):
        if tanh.base != "tanh" or not is_private(graph, tanh):
            continue
        softplus = graph[tanh.inputs[0]]
        if softplus.base != "softplus" or not is_private(graph, softplus) or softplus.kwargs:
            continue
        x = graph[softplus.inputs[0]]
        plain = all(given == usual for given, usual in zip(softplus.args[1:], USUAL, strict=False))
        if plain and x.name in product.inputs and x.shapes == product.shapes:
            return tanh, softplus
    return None
