"""Fold a mean over spatial dimensions into the convolution before it: no output of full size is left.

    sum_o y_o  =  sum_t W_t (sum_i x_i  -  the rows of x at the ends that tap t misses)

A convolution is linear, so that the sum over its outputs passes to its input: each tap t of the filter meets the sum of
all rows, less a few at both ends (see `borders`). Each such row is missed by the first taps or by the last. So for one
dimension

    -sum_o y_o  =  (-sum_t W_t) (sum_i x_i)  +  sum over the border rows i of (the sum of the W_t that miss i) x_i

which is a product over more channels (one for the sum, one for each border row), and several dimensions follow one by
one. The dimensions that are not averaged stay those of a convolution. Steps between the convolution and the mean whose
numbers are constant along the averaged dimensions (a bias, a factor) are applied to the mean. The weight is summed in
every call, because it may change in place.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

from pydantic import JsonValue

from egg_graph.expert.capture.borders import Border, Convolution, borders_of, convolution_of
from egg_graph.expert.capture.graph import CapturedGraph, Node
from egg_graph.expert.capture.rewrite import Shapes, are_new, is_private, new_node, number, refer, replace

LEAST_OUTPUTS = 2**20
"""Elements of the convolution's output at full shape below which a handful of small kernels take as long."""
LEAST_SAVING = 8
"""Outputs at full shape that become one channel at least; below it the product is hardly smaller."""
LARGEST_DOT = 2**24
"""Products up to which a sum of products in fp32 takes no longer than a launch does."""
REDUCTIONS = ("aten.sum.dim_IntList", "aten.mean.dim")
STEPS = ("mul.Tensor", "div.Tensor", "add.Tensor", "sub.Tensor", "mul.Scalar", "div.Scalar", "add.Scalar", "sub.Scalar")
LAST = 2**63 - 1
"""The end of a slice that has none."""


@dataclass(frozen=True)
class Chain:
    """A convolution, the steps behind it, and the mean or sum over some of its spatial dimensions."""

    convolution: Convolution
    steps: tuple[Node, ...]
    end: Node
    again: tuple[Node, ...]
    """Means and sums of the result over dimensions that have a single element left."""
    borders: dict[int, tuple[Border, Border]]
    """By the reduced spatial dimension, in order: 0 is the first behind the channels."""

    @property
    def name(self) -> str:
        """The name of the result."""
        return (self.end, *self.again)[-1].name

    @property
    def rest(self) -> tuple[int, ...]:
        """The spatial dimensions that stay."""
        return tuple(dim for dim in range(self.convolution.rank) if dim not in self.borders)

    @property
    def outputs(self) -> tuple[int, ...]:
        """Number of outputs that become one, in each capture."""
        return tuple(prod(shape[dim + 2] for dim in self.borders) for shape in self.convolution.node.shapes)

    @property
    def pays(self) -> bool:
        """Whether the fold saves more than its launches cost."""
        kinds = prod(1 + len(begin.reach) + len(end.reach) for begin, end in self.borders.values())
        return self.outputs[0] >= LEAST_SAVING * kinds and self.convolution.node.numel[0] >= LEAST_OUTPUTS


def fold_spatial_means(graph: CapturedGraph) -> CapturedGraph:
    """Return the graph with every such mean or sum folded into its convolution, and each fold's proof beside it."""
    for node in graph.nodes:
        chain = _chain_to(graph, node)
        if chain is not None and chain.pays:
            folded = _Fold(graph, chain).nodes()
            if are_new(graph, folded):
                return fold_spatial_means(_replaced(graph, chain, folded))
    return graph


def _chain_to(graph: CapturedGraph, end: Node) -> Chain | None:
    """Walk from a mean back to the convolution; None where something else is on the way, or needs what is on it."""
    if end.op not in REDUCTIONS or end.kwargs or end.dtype != "float32":
        return None
    source = graph[end.inputs[0]]
    if source.rank < 3:
        return None
    dims = _dims(end, source.rank)
    steps: list[Node] = []
    while is_private(graph, source) and (convolution := convolution_of(graph, source)) is None:
        if (before := _before(graph, source, dims)) is None:
            return None
        steps.append(source)
        source = before
    if not is_private(graph, source) or convolution is None or not dims or dims[0] < 2:
        return None
    borders = {dim - 2: borders_of(graph, convolution, dim - 2) for dim in dims}
    known = {dim: each for dim, each in borders.items() if each is not None}
    if len(known) < len(dims):
        return None
    return Chain(convolution, tuple(reversed(steps)), end, _again(graph, end), known)


def _again(graph: CapturedGraph, end: Node) -> tuple[Node, ...]:
    """Walk on over means that change nothing."""
    found = [end]
    while is_private(graph, found[-1]):
        user = graph[graph.users[found[-1].name][0]]
        if user.op not in REDUCTIONS or user.kwargs or (user.shapes, user.dtype) != (end.shapes, end.dtype):
            break
        found.append(user)
    return tuple(found[1:])


def _dims(end: Node, rank: int) -> tuple[int, ...]:
    raw = end.args[1] if len(end.args) > 1 else None
    return tuple(sorted(int(str(dim)) % rank for dim in raw)) if isinstance(raw, list) else ()


def _before(graph: CapturedGraph, step: Node, dims: tuple[int, ...]) -> Node | None:
    """Return what a step is applied to; None unless it is linear and the same along the averaged dimensions."""
    if step.op.removeprefix("aten.") not in STEPS or step.kwargs or len(step.args) != 2 or step.dtype != "float32":
        return None
    if not isinstance(step.args[0], dict) or "node" not in step.args[0]:
        return None
    first, others = graph[step.inputs[0]], [graph[name] for name in step.inputs[1:]]
    if isinstance(step.args[1], dict) and "node" in step.args[1] and not others:
        return None  # y with itself
    same = all(_is_one(other, dim - step.rank) for other in others for dim in dims)
    return first if same and first.shapes == step.shapes and first.dtype == "float32" else None


def _is_one(node: Node, dim: int) -> bool:
    """Return whether a broadcast operand has a single value along a dimension, which is counted from the last."""
    return node.rank < -dim or set(node.size(dim)) == {1}


@dataclass
class _Fold:
    """Writes the nodes that stand for a chain."""

    graph: CapturedGraph
    chain: Chain
    made: list[Node] = field(default_factory=list)

    def nodes(self) -> list[Node]:
        """Return the new nodes, the last with the mean's name."""
        chain = self.chain
        value = self._convolution() if chain.rest else self._product()
        for dim in chain.borders:
            shapes = tuple((*shape[: dim + 2], 1, *shape[dim + 2 :]) for shape in value.shapes)
            value = self._add(f"spread_{dim}", "unsqueeze.default", (refer(value), dim + 2), shapes)
        value = self._steps(self._averaged(value))
        for dim in chain.borders if "sum" in chain.end.op else ():
            count = number(chain.convolution.node.size(dim + 2))
            value = self._add(f"total_{dim}", "mul.Tensor", (refer(value), count), value.shapes)
        if value.shapes != chain.end.shapes:
            self._add("flat", "squeeze.dims", (refer(value), [dim + 2 for dim in chain.borders]), chain.end.shapes)
        self.made[-1] = self.made[-1].model_copy(update={"name": chain.name})
        return self.made

    def _convolution(self) -> Node:
        """Convolve along the dimensions that stay: [B, N, *rest]."""
        convolution, rest = self.chain.convolution, self.chain.rest
        x, weight = (self.graph[name] for name in convolution.node.inputs[:2])
        places = tuple(dim + 2 for dim in rest)
        rows = self._merged("input", self._condensed("input", x, weigh=False), (0, 1, *self._reduced, *places), 1)
        filters = self._condensed("weight", weight, weigh=True)
        if convolution.transposed:
            filters = self._merged("weight", filters, (0, *self._reduced, 1, *places), 0)
        else:
            filters = self._merged("weight", filters, (0, 1, *self._reduced, *places), 1)
        op = f"conv_transpose{len(rest)}d" if convolution.transposed else f"conv{len(rest)}d"
        overload = "input" if op in ("conv_transpose2d", "conv_transpose3d") else "default"
        shapes = tuple((*shape[:2], *(shape[d] for d in places)) for shape in convolution.node.shapes)
        args = (refer(rows), refer(filters), None, *convolution.numbers(rest))
        self._add("convolution", f"{op}.{overload}", args, shapes)
        return self._of_sums()

    def _product(self) -> Node:
        """Multiply where no dimension stays: [B, N]. A small product is a sum in fp32, a large one a matrix product."""
        convolution = self.chain.convolution
        x, weight = (self.graph[name] for name in convolution.node.inputs[:2])
        rows = self._merged("input", self._condensed("input", x, weigh=False), (0, 1, *self._reduced), 1)
        layout = (1, 0) if convolution.transposed else (0, 1)
        filters = self._merged("weight", self._condensed("weight", weight, weigh=True), (*layout, *self._reduced), 1)
        shapes = tuple(shape[:2] for shape in convolution.node.shapes)
        if prod(shapes[0]) * rows.shape[1] > LARGEST_DOT:
            self._add("linear", "linear.default", (refer(rows), refer(filters)), shapes)
            return self._of_sums()
        single = tuple((m, 1, k) for m, k in rows.shapes)
        rows = self._add("input_single", "unsqueeze.default", (refer(rows), 1), single)
        full = tuple((*mn, mk[-1]) for mn, mk in zip(shapes, rows.shapes, strict=True))
        products = self._add("products", "mul.Tensor", (refer(rows), refer(filters)), full)
        return self._add("dot", "sum.dim_IntList", (refer(products), [-1]), shapes)

    @property
    def _reduced(self) -> tuple[int, ...]:
        """The dimensions of a tensor with batch and channels in front."""
        return tuple(dim + 2 for dim in self.chain.borders)

    def _condensed(self, part: str, source: Node, *, weigh: bool) -> Node:
        """Replace each reduced dimension of x by its sum and its border rows; of the weight by what meets those."""
        borders = self.chain.borders
        free: list[JsonValue] = [dim + 2 for dim, (begin, end) in borders.items() if not begin.reach and not end.reach]
        value = source
        if free:
            shapes = tuple(tuple(1 if d in free else n for d, n in enumerate(shape)) for shape in source.shapes)
            value = self._add(f"{part}_sum", "sum.dim_IntList", (refer(source), free, True), shapes)
        for dim, (begin, end) in borders.items():
            if dim + 2 not in free:
                name = f"{part}_{dim}"
                edges = self._filter_edges if weigh else self._edge_rows
                total = self._sum(f"{name}_sum", value, dim + 2)
                if weigh:
                    total = self._add(f"{name}_negative", "neg.default", (refer(total),), total.shapes)
                parts = [total, *edges(name, value, dim + 2, begin, end)]
                every: list[JsonValue] = [refer(each) for each in parts]
                value = self._add(name, "cat.default", (every, dim + 2), _joined(parts, dim + 2))
        return value

    def _edge_rows(self, name: str, x: Node, dim: int, begin: Border, end: Border) -> Iterator[Node]:
        """Yield the rows at the begin, then those at the end; all in order."""
        if begin.reach:
            yield self._slice(f"{name}_begin", x, dim, 0, len(begin.reach))
        if end.reach:
            yield self._slice(f"{name}_end", x, dim, -len(end.reach), LAST)

    def _filter_edges(self, name: str, weight: Node, dim: int, begin: Border, end: Border) -> Iterator[Node]:
        """Yield, for each border row in the order of `_edge_rows`, the sum of the taps that miss it."""
        for side, border, reach in (("begin", begin, begin.reach), ("end", end, end.reach[::-1])):
            for place, taps in enumerate(reach):
                start, stop = (0, taps) if border.leading else (-taps, LAST)
                missed = self._slice(f"{name}_{side}_{place}", weight, dim, start, stop)
                yield missed if taps == 1 else self._sum(f"{name}_{side}_{place}_sum", missed, dim)

    def _merged(self, part: str, value: Node, order: tuple[int, ...], channels: int) -> Node:
        """Turn the dimensions, and make one of the channels and the reduced dimensions behind them."""
        if order != tuple(range(value.rank)):
            shapes = tuple(tuple(shape[d] for d in order) for shape in value.shapes)
            value = self._add(f"{part}_turned", "permute.default", (refer(value), list(order)), shapes)
        last = channels + len(self._reduced)
        shapes = tuple((*s[:channels], prod(s[channels : last + 1]), *s[last + 1 :]) for s in value.shapes)
        return self._add(f"{part}_channels", "flatten.using_ints", (refer(value), channels, last), shapes)

    def _averaged(self, value: Node) -> Node:
        """Make the mean of what the dimensions summed to, each with the sign of the weight's sum; add the bias."""
        convolution, borders = self.chain.convolution, self.chain.borders
        if sum(bool(begin.reach or end.reach) for begin, end in borders.values()) % 2:
            value = self._add("sign", "neg.default", (refer(value),), value.shapes)
        for dim in borders:
            count = number(convolution.node.size(dim + 2))
            value = self._add(f"mean_{dim}", "div.Tensor", (refer(value), count), value.shapes)
        if convolution.bias is None:
            return value
        bias = self.graph[convolution.bias]
        for place in range(convolution.rank):
            shapes = tuple((*shape, 1) for shape in bias.shapes)
            bias = self._add(f"bias_{place}", "unsqueeze.default", (refer(bias), -1), shapes)
        return self._add("biased", "add.Tensor", (refer(value), refer(bias)), value.shapes)

    def _steps(self, value: Node) -> Node:
        """Apply the steps between the convolution and the mean to the mean."""
        for step in self.chain.steps:
            value = self._add(f"{step.name}_mean", step.op, (refer(value), step.args[1]), value.shapes)
        return value

    def _sum(self, part: str, source: Node, dim: int) -> Node:
        shapes = tuple((*shape[:dim], 1, *shape[dim + 1 :]) for shape in source.shapes)
        return self._add(part, "sum.dim_IntList", (refer(source), [dim], True), shapes)

    def _slice(self, part: str, source: Node, dim: int, start: int, stop: int) -> Node:
        shapes = tuple((*s[:dim], len(range(s[dim])[start:stop]), *s[dim + 1 :]) for s in source.shapes)
        return self._add(part, "slice.Tensor", (refer(source), dim, start, stop), shapes)

    def _of_sums(self) -> Node:
        """Mark the newest node: x and weight were summed before it multiplies them."""
        self.made[-1] = self.made[-1].model_copy(update={"of_sums": True})
        return self.made[-1]

    def _add(self, part: str, op: str, args: tuple[JsonValue, ...], shapes: Shapes) -> Node:
        self.made.append(new_node(f"{self.chain.end.name}_{part}", op, args, shapes))
        return self.made[-1]


def _joined(parts: list[Node], dim: int) -> Shapes:
    """Return the shapes of tensors that are joined along a dimension."""
    columns = zip(*(part.shapes for part in parts), strict=True)
    return tuple((*each[0][:dim], sum(shape[dim] for shape in each), *each[0][dim + 1 :]) for each in columns)


def _replaced(graph: CapturedGraph, chain: Chain, folded: list[Node]) -> CapturedGraph:
    """Return the graph with the new nodes in the chain's place."""
    gone = {node.name for node in (chain.convolution.node, *chain.steps, chain.end, *chain.again)}
    return replace(graph, gone, chain.name, folded, _proof(chain))


def _proof(chain: Chain) -> str:
    """Write why the fold computes the same."""
    between = ", ".join(step.base for step in chain.steps) or "nothing"
    what = "mean" if "mean" in chain.end.op else "sum"
    rows = sum(len(begin.reach) + len(end.reach) for begin, end in chain.borders.values())
    missed = f" less the {rows} border rows that some taps miss" if rows else ""
    return (
        f"{what} over {chain.outputs[0]} outputs of {chain.convolution.node.base} (between: {between}; the same for "
        f"all of them): sum_o(y_o) = sum_t(W_t sum_i(x_i)){missed}, divided by their number"
    )
