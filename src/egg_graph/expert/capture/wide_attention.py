"""Write attention over wide heads out as two products and a softmax.

One kernel that keeps a tile of queries and its running sum needs the whole width of a head at once, in registers and
shared memory. Where that does not fit, the scores pass through memory, which is little beside heads so wide.
"""

from pydantic import JsonValue

from egg_graph.expert.capture.graph import CapturedGraph, Node, node_name
from egg_graph.expert.capture.rewrite import Shapes, are_new, new_node, refer, replace

LARGEST_HEAD = 256
"""The largest head dimension whose tiles fit into registers and shared memory."""


def write_out_wide_attention(graph: CapturedGraph) -> CapturedGraph:
    """Return the graph with every fused attention over wider heads written out, and the proof of each.

    One with a mask, a causal one and one whose queries share keys stay as they are.
    """
    for node in graph.nodes:
        if _is_plain(graph, node):
            made = _written_out(graph, node)
            if are_new(graph, made):
                proof = f"attention over heads of {node.shape[-1]} by its definition: softmax(scale q k') v"
                return write_out_wide_attention(replace(graph, set(), node.name, made, proof))
    return graph


def _is_plain(graph: CapturedGraph, node: Node) -> bool:
    """Return whether a node is the fused operator over wide heads of all three alike, without mask or dropout."""
    if node.op != "aten.scaled_dot_product_attention.default":
        return False
    q, k, v = (graph[node_name(arg)] for arg in node.args[:3])
    plain = not any(node.args[3:]) and not any(value for name, value in node.kwargs.items() if name != "scale")
    alike = q.rank >= 3 and all(
        s[:-2] == t[:-2] == u[:-2] for s, t, u in zip(q.shapes, k.shapes, v.shapes, strict=True)
    )
    wide = max(q.shape[-1], v.shape[-1]) > LARGEST_HEAD
    return plain and q.rank == k.rank == v.rank and alike and wide and {q.dtype, k.dtype, v.dtype} == {node.dtype}


def _written_out(graph: CapturedGraph, node: Node) -> list[Node]:
    q, k, v = (graph[node_name(arg)] for arg in node.args[:3])
    made: list[Node] = []

    def add(part: str, op: str, args: tuple[JsonValue, ...], shapes: Shapes) -> Node:
        made.append(new_node(f"{node.name}_{part}", op, args, shapes).model_copy(update={"dtype": node.dtype}))
        return made[-1]

    turned = add("keys", "transpose.int", (refer(k), -2, -1), tuple((*s[:-2], s[-1], s[-2]) for s in k.shapes))
    made[-1] = turned.model_copy(update={"stride": (*k.stride[:-2], k.stride[-1], k.stride[-2])})
    pairs = tuple((*s[:-1], t[-2]) for s, t in zip(q.shapes, k.shapes, strict=True))
    rows = tuple((*shape[:-1], 1) for shape in pairs)
    products = add("products", "matmul.default", (refer(q), refer(turned)), pairs)
    scores = add("scores", "mul.Tensor", (refer(products), _scale(node, q)), pairs)
    top = add("top", "amax.default", (refer(scores), [-1], True), rows)
    below = add("below", "sub.Tensor", (refer(scores), refer(top)), pairs)
    exponentials = add("exponentials", "exp.default", (refer(below),), pairs)
    total = add("total", "sum.dim_IntList", (refer(exponentials), [-1], True), rows)
    weights = add("weights", "div.Tensor", (refer(exponentials), refer(total)), pairs)
    return [
        *made,
        node.model_copy(update={"op": "aten.matmul.default", "args": (refer(weights), refer(v)), "kwargs": {}}),
    ]


def _scale(node: Node, q: Node) -> JsonValue:
    """Return the factor of the scores; one over the root of the head's width where none is given."""
    given = node.kwargs.get("scale")
    if given is not None:
        return given
    scales: list[JsonValue] = [shape[-1] ** -0.5 for shape in q.shapes]
    return scales[0] if len(set(map(str, scales))) == 1 else {"floats": scales}
