"""Fold an average pooling behind a convolution into its filter: a convolution of more taps at far fewer places.

Along one dimension, with a filter W of k taps, padding p, a window of q places and windows r apart:

    convolution of stride 1:             pooled[i] = sum_u V[u] x[r i + u - p],      V[u] = mean_{j<q} W[u - j]
    transposed convolution of stride s:  pooled[i] = sum_v V[v] x[r / s * i + v],    V[v] = mean_{j<q} W[j + p - s v]

where W is zero beyond its taps. V is an average pooling of W, padded with zeros (and turned round where transposed).
The filter is averaged in every call, because it may change in place. Of a convolution of one tap the input is averaged
instead: as many products at fewer places. What is the same at all places of a channel, added
or multiplied between the two, passes through an average.

The transposed convolution of n places writes (n - 1) s - 2 p + k + more, so that the pooling leaves
floor((n - 1 + c) / m) + 1 of them, with m = r / s and c = floor((k - 2 p + more - q) / s). A convolution of stride m,
padding Q and 2 Q + 1 - c taps leaves as many of any n. Its taps are v = -Q … Q - c, and hold all that are not zero if
Q >= -v0 and Q >= v1 + c, where v0 = ceil((p - k + 1) / s) and v1 = floor((q - 1 + p) / s).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

from pydantic import JsonValue

from egg_graph.expert.capture.average import Average, Numbers, average_at, times
from egg_graph.expert.capture.averaged_axis import averaged_axis
from egg_graph.expert.capture.channel_steps import source_of_step
from egg_graph.expert.capture.graph import CapturedGraph, Derived, Node, by_dimension, node_name
from egg_graph.expert.capture.rewrite import Shapes, are_new, is_private, new_node, number, refer, renamed, replace

PLAIN = ("x", "weight", "bias", "stride", "padding", "dilation", "groups")
TRANSPOSED = ("x", "weight", "bias", "stride", "padding", "output_padding", "groups", "dilation")
DEFAULTS = {"stride": 1, "padding": 0, "output_padding": 0, "dilation": 1}
FEWER_PRODUCTS = 0.75
"""Fold where at most this share of the products is left."""
SMALL_FILTER = 16
"""Fold where the convolution writes at least so many times more numbers than the averaged filter has."""


@dataclass(frozen=True)
class Layer:
    """A convolution whose every input channel reaches every output channel, without dilation."""

    node: Node
    x: Node
    weight: Node
    bias: JsonValue
    transposed: bool
    stride: Numbers
    padding: Numbers
    output_padding: Numbers

    @property
    def taps(self) -> Numbers:
        return tuple(self.weight.size(d + 2) for d in range(len(self.stride)))

    @property
    def has_one_tap(self) -> bool:
        """Whether each place of the output comes from the same place of the input, in every capture."""
        ones = all(set(n) == {1} for n in (*self.taps, *self.stride))
        return ones and not self.transposed and not any(map(any, self.padding))


@dataclass(frozen=True)
class Axis:
    """How a filter is averaged along one dimension, and the convolution with it; in each capture.

    The filter gets zeros before and after it (taps are cut off where negative), then windows of it are averaged, `step`
    apart.
    """

    before: int
    after: int
    window: int
    step: int
    stride: int
    padding: int

    def taps(self, taps: int) -> int:
        """Return how many taps the averaged filter has."""
        return (taps + self.before + self.after - self.window) // self.step + 1


def fold_pooled_convolutions(graph: CapturedGraph) -> CapturedGraph:
    """Return the graph with every such pooling folded where that pays, and each fold's proof."""
    for node in graph.nodes:
        pool = average_at(graph, node)
        if pool is None or (chain := _chain_to(graph, pool)) is None:
            continue
        layer, steps = chain
        axes = _axes(layer, pool)
        if axes is None:
            continue
        fold = _Fold(pool, layer, steps, axes)
        made = fold.nodes()
        if fold.pays() and are_new(graph, made):
            gone = {layer.node.name, *(step.name for step in steps)}
            folded = replace(graph, gone, node.name, made, fold.proof())
            derived = (*graph.derived, *(_derived(layer, pool) if layer.transposed else ()))
            return fold_pooled_convolutions(folded.model_copy(update={"derived": derived}))
    return graph


def _chain_to(graph: CapturedGraph, pool: Average) -> tuple[Layer, tuple[Node, ...]] | None:
    """Walk from a pooling back to the convolution; None where something else is on the way, or is needed elsewhere."""
    source, steps = pool.x, list[Node]()
    while is_private(graph, source) and source.dtype == "float32":
        layer = _layer_at(graph, source, pool.rank)
        if layer is not None:
            return layer, tuple(reversed(steps))
        before = source_of_step(graph, source)
        if before is None:
            return None
        steps.append(source)
        source = before
    return None


def _layer_at(graph: CapturedGraph, node: Node, rank: int) -> Layer | None:
    """Return the convolution at a node, None where it is none, has groups or dilation, or is not all in fp32."""
    if node.base not in (f"conv{rank}d", f"conv_transpose{rank}d") or node.rank != rank + 2:
        return None
    transposed = "transpose" in node.base
    given = {**dict(zip(TRANSPOSED if transposed else PLAIN, node.args, strict=False)), **node.kwargs}
    x, weight = graph[node_name(given["x"])], graph[node_name(given["weight"])]
    read = {name: by_dimension(given.get(name), rank, len(node.shapes), default) for name, default in DEFAULTS.items()}
    stride, padding, output_padding, dilation = (read[name] for name in DEFAULTS)
    if stride is None or padding is None or output_padding is None or dilation is None:
        return None
    if given.get("groups", 1) != 1 or any(set(d) != {1} for d in dilation) or {x.dtype, weight.dtype} != {"float32"}:
        return None
    return Layer(node, x, weight, given.get("bias"), transposed, stride, padding, output_padding)


def _numbers(layer: Layer, pool: Average) -> Iterator[Numbers]:
    """Yield, for each dimension, the arguments of `averaged_axis`."""
    numbers = (layer.taps, layer.stride, layer.padding, layer.output_padding, pool.window, pool.stride)
    return zip(*numbers, strict=True)


def _derived(layer: Layer, pool: Average) -> Iterator[Derived]:
    """Yield what the fold of a transposed convolution computes from the numbers of both."""
    for arguments in _numbers(layer, pool):
        found = (averaged_axis(*numbers) for numbers in zip(*arguments, strict=True))
        for part, values in enumerate(zip(*found, strict=True)):
            yield Derived(function=averaged_axis.__name__, arguments=arguments, part=part, values=values)


def _axes(layer: Layer, pool: Average) -> tuple[tuple[Axis, ...], ...] | None:
    """Return how to average each dimension in each capture; None where the pooled convolution is no convolution."""
    along = transposed_axis if layer.transposed else plain_axis
    found = [tuple(along(*n) for n in zip(*d, strict=True)) for d in _numbers(layer, pool)]
    axes = tuple(tuple(axis for axis in axes if axis is not None) for axes in found)
    return axes if [len(a) for a in axes] == [len(a) for a in found] else None


def plain_axis(taps: int, stride: int, padding: int, more: int, window: int, apart: int) -> Axis | None:
    """Return how to average the filter of a convolution; None where it has a stride."""
    return Axis(window - 1, window - 1, window, 1, apart, padding) if stride == 1 else None


def transposed_axis(taps: int, stride: int, padding: int, more: int, window: int, apart: int) -> Axis | None:
    """Return how to average the turned filter of a transposed convolution; None where windows divide its stride."""
    if apart % stride:
        return None
    before, after, between, pad = averaged_axis(taps, stride, padding, more, window, apart)
    left = taps + min(before, 0) + min(after, 0)
    return Axis(before, after, window, stride, between, pad) if left > 0 else None


@dataclass
class _Fold:
    """Writes the nodes that stand for a convolution, the steps behind it and the pooling."""

    pool: Average
    layer: Layer
    steps: tuple[Node, ...]
    axes: tuple[tuple[Axis, ...], ...]
    made: list[Node] = field(default_factory=list)

    def nodes(self) -> list[Node]:
        """Return the average's nodes, the convolution, and the steps; the last has the pool's name."""
        layer, axes = self.layer, self.axes
        args: tuple[JsonValue, ...]
        if layer.has_one_tap:
            args = (refer(self._averaged_input()), refer(layer.weight), layer.bias)
        else:
            weight = self._averaged(self._turned() if layer.transposed else layer.weight)
            args = (refer(layer.x), refer(weight), layer.bias, self._each("stride"), self._each("padding"))
        result = self._add("convolution", f"conv{len(axes)}d.default", args, self.pool.node.shapes)
        names = {layer.node.name: result.name}
        for step in self.steps:
            operands = tuple(renamed(arg, names) for arg in step.args)
            op = step.op.removeprefix("aten.")
            names[step.name] = self._add(step.name, op, operands, self.pool.node.shapes).name
        self.made[-1] = self.made[-1].model_copy(update={"name": self.pool.node.name})
        return self.made

    def pays(self) -> bool:
        """Return whether at full shape fewer products are left, and what is averaged now is small beside what was."""
        if self.layer.has_one_tap:
            fewer = self.pool.node.numel[0] <= FEWER_PRODUCTS * self.layer.node.numel[0]
            return fewer and self.made[0].numel[0] <= self.layer.node.numel[0]
        output, weight = self.layer.x if self.layer.transposed else self.layer.node, self.layer.weight
        before = prod(weight.shape) * prod(output.shape[2:])
        averaged = self._taps(weight.shapes[0][2:], 0)
        after = prod((*weight.shape[:2], *averaged, *self.pool.node.shape[2:]))
        few = after <= FEWER_PRODUCTS * before
        return few and SMALL_FILTER * prod((*weight.shape[:2], *averaged)) <= self.layer.node.numel[0]

    def proof(self) -> str:
        """Write why the fold computes the same."""
        pool, layer = self.pool, self.layer
        between = ", ".join(step.base for step in self.steps) or "nothing"
        taps = " x ".join(map(str, self._taps(layer.weight.shape[2:], 0)))
        instead = f"the filter's {times(layer.taps)} taps, {taps} then"
        return (
            f"averages of {times(pool.window)} places of {layer.node.base} (between: {between}; the same at all places "
            f"of a channel): averaging is linear, so it averages {'the input' if layer.has_one_tap else instead}, "
            f"and only {times(tuple(pool.node.size(d + 2) for d in range(pool.rank)))} places are computed"
        )

    def _averaged_input(self) -> Node:
        """Add the average of what a convolution of one tap reads."""
        pool, x = self.pool.node, self.layer.x
        shapes = tuple((*own[:2], *places[2:]) for own, places in zip(x.shapes, pool.shapes, strict=True))
        args = (refer(x), *([number(n) for n in numbers] for numbers in (self.pool.window, self.pool.stride)))
        return self._add("input", pool.op.removeprefix("aten."), args, shapes)

    def _turned(self) -> Node:
        """Add the filter of a transposed convolution as that of a plain one: turned round, input channels second."""
        weight = self.layer.weight
        dims: list[JsonValue] = [d + 2 for d in range(len(self.axes))]
        turned = self._add("turned", "flip.default", (refer(weight), dims), weight.shapes)
        swapped = tuple((n, c, *taps) for c, n, *taps in weight.shapes)
        view = self._add("swapped", "transpose.int", (refer(turned), 0, 1), swapped)
        stride = (turned.stride[1], turned.stride[0], *turned.stride[2:])
        self.made[-1] = view.model_copy(update={"stride": stride})
        return self.made[-1]

    def _averaged(self, weight: Node) -> Node:
        """Add zeros around a filter [N, C, *taps], and the averages of its windows."""
        around: list[JsonValue] = []
        for axes in reversed(self.axes):
            around += [number(tuple(axis.before for axis in axes)), number(tuple(axis.after for axis in axes))]
        shapes = weight.shapes
        if any(around):
            grown = tuple(
                (
                    *shape[:2],
                    *(k + axes[i].before + axes[i].after for k, axes in zip(shape[2:], self.axes, strict=True)),
                )
                for i, shape in enumerate(shapes)
            )
            weight = self._add("padded", "constant_pad_nd.default", (refer(weight), around), grown)
        averaged = tuple((*shape[:2], *self._taps(shape[2:], i)) for i, shape in enumerate(shapes))
        args = (refer(weight), self._each("window"), self._each("step"))
        return self._add("filter", f"avg_pool{len(self.axes)}d.default", args, averaged)

    def _taps(self, taps: tuple[int, ...], capture: int) -> tuple[int, ...]:
        """Return the sizes of the averaged filter in one capture."""
        return tuple(axes[capture].taps(k) for k, axes in zip(taps, self.axes, strict=True))

    def _each(self, name: str) -> JsonValue:
        """Write one number of every dimension as an argument."""
        return [number(tuple(getattr(axis, name) for axis in axes)) for axes in self.axes]

    def _add(self, part: str, op: str, args: tuple[JsonValue, ...], shapes: Shapes) -> Node:
        self.made.append(new_node(f"{self.pool.node.name}_{part}", op, args, shapes))
        return self.made[-1]
