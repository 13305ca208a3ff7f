"""Recognise a matrix product and the pointwise chain that can run in its epilogue."""

from dataclasses import dataclass
from math import prod

from pydantic import JsonValue

from egg_graph.expert.capture.graph import CapturedGraph, Node, node_name
from egg_graph.expert.codegen.expressions import FLOATS, is_pointwise
from egg_graph.expert.codegen.group import Group

PRODUCTS = frozenset({"linear", "mm", "bmm", "matmul", "addmm", "baddbmm"})


@dataclass(frozen=True)
class Product:
    """`alpha * (a @ b) + beta * addend`, one matrix product of a captured graph.

    `a` is [..., M, K]. `b` is [K, N] or [..., K, N]; under `transposed_b` it is the weight [N, K] of a linear layer.
    """

    node: Node
    a: str
    b: str
    transposed_b: bool = False
    addend: str | None = None
    alpha: JsonValue = 1
    beta: JsonValue = 1
    batched: bool = False
    """Whether `b` has batch dimensions of its own; otherwise those of `a` are folded into its rows."""

    @property
    def a_text(self) -> str:
        return "[..., M, K]" if self.batched else "[..., K]"

    def mnk(self, graph: CapturedGraph) -> tuple[int, int, int, int]:
        """Return the numbers of matrices, rows, columns and summands at full shape."""
        shape, k = self.node.shape, graph[self.a].shape[-1]
        rows = shape[-2] if self.batched else prod(shape[:-1])
        return (prod(shape[:-2]) if self.batched else 1), rows, shape[-1], k


def product_at(graph: CapturedGraph, name: str) -> Product | None:
    """Return the matrix product at a node, or None where there is none that the templates can write."""
    node = graph[name]
    if node.base not in PRODUCTS or graph.is_placeholder(name):
        return None
    product = _read(node)
    a, b = graph[product.a], graph[product.b]
    if a.dtype not in FLOATS or b.dtype != a.dtype or a.rank < 2 or b.rank < 2:
        return None
    if b.rank > 2 and not product.transposed_b:
        product = Product(**{**product.__dict__, "batched": True})
    return product


def _read(node: Node) -> Product:
    args, kwargs = list(node.args), node.kwargs
    if node.base == "linear":
        bias = args[2] if len(args) > 2 else kwargs.get("bias")
        return Product(
            node, node_name(args[0]), node_name(args[1]), True, node_name(bias) if bias is not None else None
        )
    if node.base in ("addmm", "baddbmm"):
        beta, alpha = kwargs.get("beta", 1), kwargs.get("alpha", 1)
        return Product(node, node_name(args[1]), node_name(args[2]), False, node_name(args[0]), alpha, beta)
    return Product(node, node_name(args[0]), node_name(args[1]))


def group_at(graph: CapturedGraph, playbook: str, start: str, free: frozenset[str], variant: str) -> Group | None:
    """Group the product at `start` with as much of the pointwise chain behind it as leaves the kernel one output."""
    if product_at(graph, start) is None:
        return None
    chain = [start]
    for node in graph.nodes[graph.position[start] - len(graph.placeholders) + 1 :]:
        if node.name in free and _continues(graph, chain, node) and graph.is_convex([*chain, node.name]):
            chain.append(node.name)
    while len(graph.writes(chain)) > 1:
        chain.pop()
    return Group.of(graph, playbook, set(chain), variant)


def _continues(graph: CapturedGraph, chain: list[str], node: Node) -> bool:
    """Return whether a node is pointwise over the product's own shape and reads what the chain computes."""
    anchor = graph[chain[0]]
    return (
        is_pointwise(node)
        and node.is_float
        and node.shapes == anchor.shapes
        and any(name in chain for name in node.inputs)
        and all(name in chain or broadcasts(graph, name, anchor) for name in node.inputs)
    )


def broadcasts(graph: CapturedGraph, name: str, to: Node) -> bool:
    """Return whether an operand from outside broadcasts to the shape of `to` in a way that the epilogue can index.

    Its last dimension is whole or 1; of the others, those that are whole must be neighbours, as in a bias [N],
    a residual [B, T, N], a positional table [T, N] or a mask [B, 1, 1, N].
    """
    operand = graph[name]
    if operand.dtype in ("float64", "complex64", "complex128") or not operand.shapes or operand.rank > to.rank:
        return False
    pattern = dimensions(operand, to)
    return pattern is not None and "10" not in pattern[:-1].lstrip("0").rstrip("0")


def dimensions(operand: Node, to: Node) -> str | None:
    """Return one character for each dimension of `to`: "1" where the operand has it whole, "0" where it is broadcast.

    None where the captures disagree or the shapes do not broadcast.
    """
    pattern = "0" * (to.rank - operand.rank)
    for dim in range(operand.rank):
        own, whole = operand.size(dim), to.size(dim + to.rank - operand.rank)
        if own == whole:
            pattern += "1"
        elif set(own) == {1}:
            pattern += "0"
        else:
            return None
    return pattern
