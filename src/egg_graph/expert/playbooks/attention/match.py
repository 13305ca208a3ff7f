"""Recognise attention: the fused operator, or matrix product, scale, mask, softmax and second product in a row."""

from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

from egg_graph.expert.capture.graph import CapturedGraph, Node, node_name
from egg_graph.expert.capture.wide_attention import LARGEST_HEAD
from egg_graph.expert.codegen.expressions import FLOATS
from egg_graph.expert.codegen.group import Group

MaskKind = Literal["none", "allowed", "filled", "added"]


@dataclass(frozen=True)
class Attention:
    """`softmax(scale * q @ k.T + mask) @ v` with q [B, H, T_Q, D], k [B, H_K, T_K, D], v [B, H_K, T_K, D_V]."""

    nodes: tuple[str, ...]
    output: Node
    q: str
    k: str
    v: str
    keys_transposed: bool = False
    """Whether `k` is [B, H_K, D, T_K]."""
    mask: str | None = None
    mask_kind: MaskKind = "none"
    """`allowed`: True where a pair counts. `filled`: True where the score becomes `fill`. `added`: a float to add."""
    fill: JsonValue = None
    causal: bool = False
    scale: JsonValue = None
    """The factor of the scores, a number per capture where it differs; None means 1 / sqrt(D)."""
    divide: bool = False
    """Whether `scale` divides the scores."""
    empty_rows_are_zero: bool = True
    """Whether a row without keys gives zeros (the fused operator) or NaN (a softmax written out)."""


def attention_at(graph: CapturedGraph, start: str, free: frozenset[str]) -> Attention | None:
    """Return the attention that begins at a node, or None."""
    node = graph[start]
    if graph.is_placeholder(start) or node.dtype not in FLOATS:
        return None
    fused = node.base == "scaled_dot_product_attention"
    found = _fused(graph, node) if fused else _written_out(graph, node, free)
    return found if found is not None and _fits(graph, found) else None


def group_at(graph: CapturedGraph, playbook: str, start: str, free: frozenset[str], variant: str) -> Group | None:
    """Make the group of the attention at `start`; None unless it is convex and its output alone is needed outside."""
    found = attention_at(graph, start, free)
    if found is None or graph.writes(found.nodes) != (found.output.name,) or not graph.is_convex(found.nodes):
        return None
    return Group.of(graph, playbook, set(found.nodes), variant)


def _fused(graph: CapturedGraph, node: Node) -> Attention | None:
    args = dict(enumerate(node.args))
    mask = args.get(3, node.kwargs.get("attn_mask"))
    if args.get(4, node.kwargs.get("dropout_p", 0.0)):
        return None
    q, k, v = (node_name(args[i]) for i in range(3))
    mask_name = node_name(mask) if mask is not None else None
    return Attention(
        (node.name,), node, q, k, v,
        mask=mask_name,
        mask_kind="none" if mask_name is None else "allowed" if graph[mask_name].dtype == "bool" else "added",
        causal=bool(args.get(5, node.kwargs.get("is_causal", False))),
        scale=node.kwargs.get("scale"),
    )  # fmt: skip


def _fits(graph: CapturedGraph, found: Attention) -> bool:
    q, k, v = graph[found.q], graph[found.k], graph[found.v]
    if q.rank not in (3, 4) or not q.rank == k.rank == v.rank or {k.dtype, v.dtype} != {q.dtype}:
        return False
    if q.shape[-1] > LARGEST_HEAD or v.shape[-1] > LARGEST_HEAD:
        return False
    return found.mask is None or 0 < graph[found.mask].rank <= q.rank


def _written_out(graph: CapturedGraph, node: Node, free: frozenset[str]) -> Attention | None:
    """Match matmul, then scale and mask in either order, softmax over the last dimension in primitives, matmul."""
    if node.base not in ("matmul", "bmm") or node.rank not in (3, 4):
        return None
    walk = _Walk(graph, free, [node.name])
    q, k = node.inputs[0], node.inputs[-1]
    if graph[k].rank != node.rank:
        return None
    scale: JsonValue = 1.0
    divide, mask, fill = False, None, None
    kind: MaskKind = "none"
    while (step := walk.only_user()) is not None and step.base in ("mul", "div", "add", "masked_fill"):
        if step.base in ("mul", "div") and scale == 1.0 and kind == "none" and not _is_node(step.args[1]):
            scale, divide = step.args[1], step.base == "div"
        elif step.base == "add" and kind == "none" and _is_node(step.args[1]) and step.kwargs.get("alpha", 1) == 1:
            other = [name for name in step.inputs if name != walk.last]
            if len(other) != 1 or graph[other[0]].shapes == ():
                return None
            mask, kind = other[0], "added"
        elif step.base == "masked_fill" and kind == "none" and node_name(step.args[0]) == walk.last:
            mask, kind, fill = node_name(step.args[1]), "filled", step.args[2]
        else:
            return None
        if step.shapes != node.shapes:
            return None
        walk.take(step)
    product = _softmax_then_product(walk)
    if product is None:
        return None
    return Attention(
        tuple(walk.nodes), product, q, k, product.inputs[1],
        keys_transposed=True, mask=mask, mask_kind=kind, fill=fill, scale=scale, divide=divide,
        empty_rows_are_zero=False,
    )  # fmt: skip


def _softmax_then_product(walk: "_Walk") -> Node | None:
    """Match exp(s - amax(s)) / sum over the last dimension and the product that it feeds; return that product."""
    graph, scores = walk.graph, walk.last
    users = [graph[user] for user in graph.users[scores]]
    if scores in graph.returned or [user.base for user in users] != ["amax", "sub"]:
        return None
    top, shifted = users
    if not _over_last(top) or list(shifted.inputs) != [scores, top.name] or not walk.take_private(top):
        return None
    walk.take(shifted)
    exponential = walk.only_user()
    if exponential is None or exponential.base != "exp":
        return None
    walk.take(exponential)
    users = [graph[user] for user in graph.users[exponential.name]]
    if [user.base for user in users] != ["sum", "div"] or not _over_last(users[0]):
        return None
    total, quotient = users
    if list(quotient.inputs) != [exponential.name, total.name] or not walk.take_private(total):
        return None
    walk.take(quotient)
    product = walk.only_user()
    if product is None or product.base not in ("matmul", "bmm") or product.inputs[0] != quotient.name:
        return None
    if len(product.inputs) != 2 or graph[product.inputs[1]].rank != product.rank:
        return None
    walk.take(product)
    return product


class _Walk:
    """A path of nodes, each read by the next one alone."""

    def __init__(self, graph: CapturedGraph, free: frozenset[str], nodes: list[str]) -> None:
        self.graph, self.free, self.nodes = graph, free, nodes
        self.last = nodes[-1]

    def only_user(self) -> Node | None:
        users = self.graph.users[self.last]
        alone = len(users) == 1 and users[0] in self.free and self.last not in self.graph.returned
        return self.graph[users[0]] if alone else None

    def take(self, node: Node) -> None:
        self.nodes.append(node.name)
        self.last = node.name

    def take_private(self, node: Node) -> bool:
        """Add a side branch if one node alone reads it; return whether that is so."""
        if len(self.graph.users[node.name]) != 1 or node.name in self.graph.returned or node.name not in self.free:
            return False
        self.nodes.append(node.name)
        return True


def _over_last(node: Node) -> bool:
    dims = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
    keep = node.args[2] if len(node.args) > 2 else node.kwargs.get("keepdim", False)
    dims = dims if isinstance(dims, list) else [dims]
    rank = node.rank
    return bool(keep) and [int(d) % rank for d in dims] == [rank - 1]  # type: ignore[arg-type]


def _is_node(arg: JsonValue) -> bool:
    return isinstance(arg, dict) and "node" in arg
