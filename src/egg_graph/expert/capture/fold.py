"""Fold a sum over the output features of a linear layer into the layer: no product is left.

    sum_j (x W^T + b)_j  =  x . (sum_j W_j) + sum_j b_j

Where only linear steps stand between the layer and the sum (a bias, a number added or multiplied, a mean for the sum),
the sum passes through them. W is read once in every call, because a weight may change in place: its column sums cost
one read of the weight, where the product cost 2 M N K operations.
"""

from dataclasses import dataclass, field

from pydantic import JsonValue

from egg_graph.expert.capture.graph import CapturedGraph, Node
from egg_graph.expert.capture.rewrite import are_new, is_private, new_node, refer, replace

SMALLEST = 64
"""Rows and features at full shape below which the product is little more than one read of its operands."""
PRODUCTS = ("linear", "matmul", "mm")
SUMS = ("sum.dim_IntList", "mean.dim")
SCALES = ("mul.Tensor", "div.Tensor", "mul.Scalar", "div.Scalar")
SHIFTS = ("add.Tensor", "sub.Tensor", "add.Scalar", "sub.Scalar")


@dataclass(frozen=True)
class Chain:
    """A layer, the linear steps behind it, and the sum over its features at the end."""

    product: Node
    steps: tuple[Node, ...]
    end: Node

    @property
    def features(self) -> tuple[int, ...]:
        """Number of output features in each capture."""
        return self.product.size(-1)


def fold_feature_sums(graph: CapturedGraph) -> CapturedGraph:
    """Return the graph with every such sum folded into its layer, and each fold's proof beside it."""
    for node in graph.nodes:
        chain = _chain_to(graph, node)
        if chain is not None and (folded := _Fold(graph, chain).nodes()) is not None:
            return fold_feature_sums(_replaced(graph, chain, folded))
    return graph


def _chain_to(graph: CapturedGraph, end: Node) -> Chain | None:
    """Walk from a sum back to the layer; None where something else is on the way, or needs a value on the way."""
    if end.op.removeprefix("aten.") not in SUMS or end.kwargs or end.dtype != "float32" or len(end.args) < 2:
        return None
    source = graph[end.inputs[0]]
    if end.args[1] not in ([-1], [source.rank - 1]):
        return None
    steps: list[Node] = []
    while source.base not in PRODUCTS:
        if not is_private(graph, source) or (before := _before(graph, source)) is None:
            return None
        steps.append(source)
        source = before
    linear = is_private(graph, source) and source.dtype == "float32" and source.rank == 2
    return Chain(source, tuple(reversed(steps)), end) if linear and min(source.shape) >= SMALLEST else None


def _before(graph: CapturedGraph, step: Node) -> Node | None:
    """Return what a linear step is applied to; None where it is no linear step of a single feature each."""
    op = step.op.removeprefix("aten.")
    if op not in (*SCALES, *SHIFTS) or step.kwargs or len(step.args) != 2 or not _named(step.args[0]):
        return None
    first, other = graph[step.inputs[0]], step.args[1]
    if first.shapes != step.shapes or step.dtype != "float32":
        return None
    if not _named(other):
        return first if _number(other) else None
    vector = graph[step.inputs[-1]]
    is_vector = vector.shapes == tuple((n,) for n in step.size(-1)) and vector.dtype == "float32"
    return first if op in SHIFTS and len(step.inputs) == 2 and is_vector else None


def _named(arg: JsonValue) -> bool:
    return isinstance(arg, dict) and "node" in arg


def _number(arg: JsonValue) -> bool:
    if isinstance(arg, dict):
        return "sizes" in arg or "floats" in arg
    return isinstance(arg, int | float) and not isinstance(arg, bool)


@dataclass
class _Fold:
    """Writes the nodes that stand for a chain."""

    graph: CapturedGraph
    chain: Chain
    made: list[Node] = field(default_factory=list)

    def nodes(self) -> list[Node] | None:
        """Return the new nodes, the last with the sum's name; None where the layer's operands are not understood."""
        weight = self._weight()
        x = self.graph[self.chain.product.inputs[0]]
        if weight is None or x.rank != 2 or x.dtype != "float32":
            return None
        name, dim = weight
        columns = self._sum("weight", self.graph[name], dim)
        product = self._add("product", "aten.mul.Tensor", (refer(x), refer(columns)), x.shapes)
        keep = self.chain.end.args[2] if len(self.chain.end.args) > 2 else False
        dot = self._add("dot", "aten.sum.dim_IntList", (refer(product), [-1], keep), self.chain.end.shapes)
        offset = self._offset()
        if offset == "unknown":
            return None
        for step in self.chain.steps:
            if step.op.removeprefix("aten.") in SCALES:
                dot = self._add(f"{step.name}_dot", step.op, (refer(dot), step.args[1]), dot.shapes)
        if isinstance(offset, Node):
            self._add("total", "aten.add.Tensor", (refer(dot), refer(self._sum("bias", offset, 0))), dot.shapes)
        self.made[-1] = self.made[-1].model_copy(update={"name": self.chain.end.name})
        return self.made if are_new(self.graph, self.made) else None

    def _weight(self) -> tuple[str, int] | None:
        """Return the tensor that holds the weight, and the dimension of its output features."""
        product = self.chain.product
        right = self.graph[product.inputs[1]] if len(product.inputs) > 1 else None
        if right is None or right.rank != 2 or right.dtype != "float32":
            return None
        if product.base == "linear":
            return right.name, 0
        if right.base in ("permute", "transpose", "t") and _swaps(right):
            return right.inputs[0], 0
        return right.name, 1

    def _offset(self) -> Node | str | None:
        """Apply the steps to what the layer adds; None where nothing is added, "unknown" where only a number is."""
        product = self.chain.product
        bias = product.args[2] if product.base == "linear" and len(product.args) > 2 else None
        offset = self.graph[product.inputs[2]] if bias is not None else None
        for step in self.chain.steps:
            op, other = step.op, step.args[1]
            if op.removeprefix("aten.") in SCALES:
                if offset is not None:
                    offset = self._add(f"{step.name}_offset", op, (refer(offset), other), offset.shapes)
            elif offset is not None:
                offset = self._add(f"{step.name}_offset", op, (refer(offset), other), offset.shapes)
            elif not _named(other):
                return "unknown"
            elif "add" in op:
                offset = self.graph[step.inputs[1]]
            else:
                vector = self.graph[step.inputs[1]]
                offset = self._add(f"{step.name}_offset", "aten.neg.default", (refer(vector),), vector.shapes)
        return offset

    def _sum(self, part: str, source: Node, dim: int) -> Node:
        """Add the sum, or the mean, of a tensor over its output features."""
        shapes = tuple(tuple(n for i, n in enumerate(shape) if i != dim) for shape in source.shapes)
        return self._add(part, self.chain.end.op, (refer(source), [dim]), shapes)

    def _add(self, part: str, op: str, args: tuple[JsonValue, ...], shapes: tuple[tuple[int, ...], ...]) -> Node:
        self.made.append(new_node(f"{self.chain.end.name}_{part}", op, args, shapes))
        return self.made[-1]


def _swaps(view: Node) -> bool:
    """Return whether a view of a matrix is its transpose."""
    if view.base == "permute":
        return view.args[1] in ([1, 0], [-1, -2])
    return view.base == "t" or sorted(int(str(d)) % 2 for d in view.args[1:3]) == [0, 1]


def _replaced(graph: CapturedGraph, chain: Chain, folded: list[Node]) -> CapturedGraph:
    """Return the graph with the new nodes in the chain's place; a transpose that nobody reads any more goes too."""
    gone = {chain.product.name, *(step.name for step in chain.steps), chain.end.name}
    gone |= {
        name
        for name in chain.product.inputs
        if graph[name].base in ("permute", "transpose", "t") and is_private(graph, graph[name])
    }
    return replace(graph, gone, chain.end.name, folded, _proof(chain))


def _proof(chain: Chain) -> str:
    """Write why the fold computes the same."""
    between = ", ".join(step.base for step in chain.steps) or "nothing"
    what = "mean" if "mean" in chain.end.op else "sum"
    return (
        f"{what} over {chain.features[0]} features of {chain.product.base} (between: {between}; linear): "
        f"{what}_j(x W_j + b_j) = x . {what}_j(W_j) + {what}_j(b_j)"
    )
