"""Recognise a convolution and the chain that can run in its epilogue: pointwise, and reductions of what it computes."""

from dataclasses import dataclass
from math import prod

from pydantic import JsonValue

from egg_graph.expert.capture.graph import CapturedGraph, Node, by_dimension, node_name
from egg_graph.expert.codegen.expressions import FLOATS, is_pointwise
from egg_graph.expert.codegen.group import Group
from egg_graph.expert.codegen.indexing import Vector
from egg_graph.expert.codegen.parts import PARTS
from egg_graph.expert.codegen.phases import reached_inputs
from egg_graph.expert.codegen.reductions import dimensions_of
from egg_graph.expert.playbooks.channels.layout import CHANNELS_LAST
from egg_graph.expert.playbooks.convolution.window import MISREDUCED_RUN, Window, anchor_of, window_at
from egg_graph.expert.playbooks.gemm.match import dimensions
from egg_graph.expert.playbooks.knobs import power_of_two

PLAIN = {"conv1d": 1, "conv2d": 2, "conv3d": 3}
TRANSPOSED = {"conv_transpose1d": 1, "conv_transpose2d": 2, "conv_transpose3d": 3}
ADDRESSABLE = 2**31
"""Positions inside one sample, and rows of the implicit product, are counted in 32 bits."""
MOST_CHANNELS_HELD = 128
"""Channels of the output up to which one program holds all of them, so that its tail can reduce over them."""
MOST_POOLED_COLUMNS = 256
"""Phases times channels of the output up to which one program computes all phases of a transposed convolution."""
FEW_POOLED = 16
"""Channels of the input up to which it does so: beyond, the zeros that it multiplies cost more than the output."""
CHANNEL_REDUCTIONS = frozenset({"sum", "mean", "amax", "amin", "var"})
PIXEL_REDUCTIONS = frozenset({"sum", "mean", "var"})


@dataclass(frozen=True)
class Convolution:
    """One convolution of a captured graph: x [B, C, *in] -> [B, N, *out], cross-correlated with its weight.

    The weight is [N, C / groups, *taps]; [C, N / groups, *taps] where `transposed`.
    """

    node: Node
    x: str
    weight: str
    bias: str | None
    transposed: bool
    stride: tuple[Vector, ...]
    """By dimension and capture, like the four below."""
    padding: tuple[Vector, ...]
    dilation: tuple[Vector, ...]
    output_padding: tuple[Vector, ...]
    taps: tuple[Vector, ...]
    """Sizes of the filter."""
    groups: Vector
    """By capture."""

    @property
    def rank(self) -> int:
        """Number of spatial dimensions."""
        return len(self.stride)

    def channels(self, graph: CapturedGraph) -> tuple[int, int]:
        """Return channels in and out of one group at full shape."""
        first, second = graph[self.weight].shape[:2]
        if self.transposed:
            return first // self.groups[0], second
        return second, first // self.groups[0]

    def is_depthwise(self, graph: CapturedGraph) -> bool:
        """Return whether each channel of the output comes from one channel of the input, in every capture."""
        return not self.transposed and all(shape[1] == 1 for shape in graph[self.weight].shapes)


def convolution_at(graph: CapturedGraph, name: str) -> Convolution | None:
    """Return the convolution at a node, or None where there is none that the templates can write."""
    node = graph[name]
    if node.base not in PLAIN.keys() | TRANSPOSED.keys() or graph.is_placeholder(name):
        return None
    rank = PLAIN.get(node.base) or TRANSPOSED[node.base]
    if not (node.shapes and node.dtype in FLOATS and node.rank == rank + 2):
        return None
    found = _read(graph, node, rank)
    if found is None or any(graph[n].dtype != node.dtype for n in (found.x, found.weight)):
        return None
    return found if _addressable(graph[found.x], found.node) else None


def _read(graph: CapturedGraph, node: Node, rank: int) -> Convolution | None:
    transposed = node.base in TRANSPOSED
    names = ["x", "weight", "bias", "stride", "padding"]
    names += ["output_padding", "groups", "dilation"] if transposed else ["dilation", "groups"]
    given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    x, weight, bias = node_name(node.args[0]), node_name(node.args[1]), given.get("bias")
    captures = len(node.shapes)
    taps = tuple(graph[weight].size(d + 2) for d in range(rank))
    stride, dilation = (by_dimension(given.get(n), rank, captures, 1) for n in ("stride", "dilation"))
    output_padding = by_dimension(given.get("output_padding"), rank, captures, 0)
    groups = by_dimension(given.get("groups"), 1, captures, 1)
    if stride is None or dilation is None or output_padding is None or groups is None:
        return None
    padding = _padding(given.get("padding"), taps, dilation)
    if padding is None:
        return None
    return Convolution(
        node, x, weight, node_name(bias) if bias is not None else None, transposed, stride, padding, dilation,
        output_padding, taps, groups[0],
    )  # fmt: skip


def _padding(raw: JsonValue, taps: tuple[Vector, ...], dilation: tuple[Vector, ...]) -> tuple[Vector, ...] | None:
    """Read the padding; `same` where both sides of a dimension get the same."""
    captures = len(taps[0])
    if raw == "valid":
        return by_dimension(0, len(taps), captures, 0)
    if raw != "same":
        return by_dimension(raw, len(taps), captures, 0)
    whole = [tuple(d * (k - 1) for d, k in zip(*pair, strict=True)) for pair in zip(dilation, taps, strict=True)]
    if any(size % 2 for sizes in whole for size in sizes):
        return None
    return tuple(tuple(size // 2 for size in sizes) for sizes in whole)


def _addressable(x: Node, output: Node) -> bool:
    rows = output.shape[0] * prod(output.shape[2:])
    samples = max(prod(shape[1:]) for shape in (x.shape, output.shape))
    return max(rows, samples) < ADDRESSABLE


def reduces_channels(anchor: Node, node: Node, source: Node) -> bool:
    """Return whether a node reduces its source, in the shape of `anchor`, over all channels and nothing else."""
    of_channels = node.base in CHANNEL_REDUCTIONS and node.is_float and source.shapes == anchor.shapes
    return of_channels and dimensions_of(node, anchor.rank) == {1}


def reduces_pixels(anchor: Node, node: Node, source: Node) -> bool:
    """Return whether a node reduces its source, in the shape of `anchor`, over all pixels of a channel."""
    of_pixels = node.base in PIXEL_REDUCTIONS and node.is_float and source.shapes == anchor.shapes
    return of_pixels and anchor.rank > 2 and dimensions_of(node, anchor.rank) == set(range(2, anchor.rank))


def channels_can_be_held(graph: CapturedGraph, convolution: Convolution) -> bool:
    """Return whether one program can hold all channels of the output."""
    few = convolution.channels(graph)[1] <= MOST_CHANNELS_HELD
    return few and set(convolution.groups) == {1} and 1 not in convolution.node.size(1)


def phases_can_be_joined(graph: CapturedGraph, convolution: Convolution) -> bool:
    """Return whether one program can hold what a place of a transposed convolution makes: all phases, all channels."""
    if set(convolution.groups) != {1} or not has_phases(graph, convolution):
        return False
    fixed = all(len(set(stride)) == 1 for stride in convolution.stride)
    phases = prod(stride[0] for stride in convolution.stride)
    fits = columns_of_phases(graph, convolution) <= MOST_POOLED_COLUMNS and convolution.channels(graph)[0] <= FEW_POOLED
    return fixed and phases.bit_count() == 1 and fits


def has_phases(graph: CapturedGraph, convolution: Convolution) -> bool:
    """Return whether a convolution is transposed, with a stride at full shape, and its padded copy addressable."""
    if not convolution.transposed or graph[convolution.x].op == CHANNELS_LAST:
        return False
    sizes = (n + 2 * reach for n, reach in zip(graph[convolution.x].shape[2:], reach_of(convolution), strict=True))
    addressable = prod(sizes) * power_of_two(convolution.channels(graph)[0]) < ADDRESSABLE
    return addressable and any(stride[0] > 1 for stride in convolution.stride)


def reach_of(convolution: Convolution) -> tuple[int, ...]:
    """Return how many inputs the phases of a place read along each dimension, at full shape."""
    numbers = zip(convolution.stride, convolution.padding, convolution.dilation, convolution.taps, strict=True)
    return tuple(reached_inputs(s[0], p[0], d[0], t[0], 0, p[0] % s[0])[2] for s, p, d, t in numbers)


def columns_of_phases(graph: CapturedGraph, convolution: Convolution) -> int:
    """Return how many columns the product has that makes all phases of all channels."""
    phases = prod(stride[0] for stride in convolution.stride)
    return phases * power_of_two(convolution.channels(graph)[1], 16)


def joins_phases(convolution: Convolution, window: Window) -> bool:
    """Return whether a window's pixels are what the phases of a transposed convolution make of one place."""
    return window.sizes == tuple(stride[0] for stride in convolution.stride)


def group_at(
    graph: CapturedGraph,
    playbook: str,
    start: str,
    free: frozenset[str],
    variant: str,
    *,
    reduces: bool = False,
    leaves_moments: bool = True,
) -> Group:
    """Group the convolution at `start` with as much of the chain behind it as leaves one output of floats.

    Args:
        graph: The captured reference.
        playbook: Name of the playbook.
        start: The convolution.
        free: Nodes that may be taken.
        variant: The group's structure.
        reduces: Whether that structure can reduce over windows of pixels, and over all pixels (a sum, or a mean and a
            variance of the same); of a transposed convolution, where `phases_can_be_joined`, over windows first.
        leaves_moments: Whether it should leave the moments of its tiles for a norm behind it.
    """
    convolution = convolution_at(graph, start)
    assert convolution is not None
    chain = [start]
    for node in graph.nodes[graph.position[start] - len(graph.placeholders) + 1 :]:
        if node.name not in free or not any(name in chain for name in node.inputs):
            continue
        anchor = anchor_of(graph, convolution.node, chain)
        continues = _continues(graph, convolution, anchor, chain, node) or (
            reduces and _reduces(graph, convolution, anchor, chain, node)
        )
        if continues and graph.is_convex([*chain, node.name]):
            chain.append(node.name)
    while not _is_whole(graph, convolution, chain):
        chain.pop()
    parts = _parts_left(graph, convolution, chain, free) if leaves_moments else ()
    return Group.of(graph, playbook, {*chain, *parts}, variant)


def _parts_left(
    graph: CapturedGraph, convolution: Convolution, chain: list[str], free: frozenset[str]
) -> tuple[str, ...]:
    """Return the moments of parts that are wanted of what a chain computes, if it is written in any case."""
    outputs = graph.writes(chain)
    if len(outputs) != 1 or graph[outputs[0]].shapes != convolution.node.shapes or convolution.is_depthwise(graph):
        return ()
    if any(reduces_channels(convolution.node, graph[n], graph[graph[n].inputs[0]]) for n in chain[1:]):
        return ()
    found = [n for n in graph.users[outputs[0]] if graph[n].op == PARTS and n in free]
    if len(found) != 1 or graph.writes([*chain, *found]) != (outputs[0], found[0]):
        return ()
    return tuple(found)


def parts_in(graph: CapturedGraph, group: Group) -> Node | None:
    """Return the moments of parts that a group leaves beside its output; None for most."""
    return next((graph[name] for name in group.outputs if graph[name].op == PARTS), None)


def _is_whole(graph: CapturedGraph, convolution: Convolution, chain: list[str]) -> bool:
    """Return whether the outputs of a chain are one tensor of floats, or reductions of one over all pixels."""
    anchor = anchor_of(graph, convolution.node, chain)
    outputs = [graph[name] for name in graph.writes(chain)]
    over_pixels = [n for n in outputs if n.inputs and reduces_pixels(anchor, n, graph[n.inputs[0]])]
    if not over_pixels:
        return len(outputs) == 1 and outputs[0].is_float
    one = len({n.inputs[0] for n in outputs}) == 1 and len(over_pixels) == len(outputs)
    return one and [n.base for n in outputs] in (["sum"], ["mean"], ["mean", "var"])


def _reduces(graph: CapturedGraph, convolution: Convolution, anchor: Node, chain: list[str], node: Node) -> bool:
    """Return whether a node reduces what the chain computes over windows of pixels, or over all of them."""
    if reduces_pixels(anchor, node, graph[node.inputs[0]]):
        apart = convolution.transposed and anchor is convolution.node
        return not apart and _may_be_reduced(graph, convolution, anchor)
    window = window_at(graph, anchor, node) if anchor is convolution.node else None
    if window is None or (convolution.transposed and not joins_phases(convolution, window)):
        return False
    steps = [graph[name] for name in chain[1:]]
    over_channels = any(reduces_channels(anchor, n, graph[n.inputs[0]]) for n in steps)
    if over_channels and (convolution.transposed or window.along_line == MISREDUCED_RUN):
        return False
    outside = [(graph[name], step) for step in steps for name in step.inputs if name not in chain]
    return all(_by_channel(operand, step) for operand, step in outside)


def _may_be_reduced(graph: CapturedGraph, convolution: Convolution, anchor: Node) -> bool:
    """Return whether the tile at this place of the chain can be reduced further."""
    window = None if anchor is convolution.node else window_at(graph, convolution.node, anchor)
    return window is None or window.along_line != MISREDUCED_RUN


def _by_channel(operand: Node, to: Node) -> bool:
    """Return whether an operand changes with the channel alone, or not at all."""
    pattern = dimensions(operand, to)
    return pattern is not None and pattern[:1] != "1" and "1" not in pattern[2:]


def _continues(graph: CapturedGraph, convolution: Convolution, anchor: Node, chain: list[str], node: Node) -> bool:
    """Return whether a node that reads what the chain computes is pointwise, or a reduction over the channels."""
    if reduces_channels(anchor, node, graph[node.inputs[0]]):
        return channels_can_be_held(graph, convolution) and _may_be_reduced(graph, convolution, anchor)
    whole = node.shapes == anchor.shapes
    if not is_pointwise(node) or not (whole or node.shapes in _without_channels(anchor)):
        return False
    fitting = (anchor.shapes, _without_channels(anchor)[0]) if whole else (node.shapes,)
    return (
        (node.is_float or (node.dtype == "bool" and not whole))
        and all(graph[name].shapes in fitting for name in node.inputs if name in chain)
        and all(name in chain or broadcasts(graph[name], node) for name in node.inputs)
    )


def _without_channels(anchor: Node) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """Return the shapes, by capture, of what is reduced over the channels: with that dimension kept, and without."""
    kept = tuple((shape[0], 1, *shape[2:]) for shape in anchor.shapes)
    return kept, tuple((shape[0], *shape[2:]) for shape in anchor.shapes)


def broadcasts(operand: Node, to: Node) -> bool:
    """Return whether an operand from outside broadcasts to the shape of `to` in the same way in every capture."""
    if operand.dtype in ("float64", "complex64", "complex128") or not operand.shapes or operand.rank > to.rank:
        return False
    return dimensions(operand, to) is not None
