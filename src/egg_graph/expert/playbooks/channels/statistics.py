"""Mean and variance of every channel of [samples, channels, pixels], and what follows from them by channel."""

from egg_graph.expert.capture.graph import CapturedGraph, Node
from egg_graph.expert.codegen.expressions import is_pointwise
from egg_graph.expert.codegen.fusion import Body, is_moving
from egg_graph.expert.codegen.group import Group, KernelCode
from egg_graph.expert.codegen.indexing import Index, Unfusable
from egg_graph.expert.codegen.launch import Wrapper, call, describe, kernel
from egg_graph.expert.codegen.reductions import check, correction, dimensions_of, is_reduction
from egg_graph.expert.playbooks.channels.tile import (
    CHANNEL,
    CONSTANTS,
    HEAD,
    MASK,
    NAMES,
    SIZES,
    TILE,
    WHOLE,
    ChannelBody,
    launch_constants,
    sizes_of,
    space_of_channels,
    tuning,
)
from egg_graph.expert.playbooks.grow import grow, without_last_views
from egg_graph.expert.playbooks.playbook import Playbook
from egg_graph.schema import Hardware, Precision

BATCH_NORMS = frozenset({
    "batch_norm", "native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_functional",
    "_batch_norm_with_update", "cudnn_batch_norm",
})  # fmt: skip
MOST_LANES = 4096
"""Partial results that one program holds at a time."""
COUNTED = [
    "counted = tl.maximum(tl.minimum(end, first + BLOCK) - tl.maximum(begin, first), 0)",
    "count = tl.sum(tl.where(row_mask, counted, 0)).to(tl.float32)",
]
JOINED = [
    "n_partial = tl.num_programs(0) * n_parts",
    "partial_ptr += tl.program_id(0) * n_parts",
    "channel = tl.program_id(0) + tl.zeros([1], tl.int32)",
    "lanes = tl.arange(0, LANES)",
    "base = tl.load(partial_ptr + n_partial)  # means are joined as distances from one of them",
    "count = 0.0",
    "mean = 0.0",
    "m2 = 0.0",
    "for start in range(0, n_parts, LANES):",
    "    lane_mask = start + lanes < n_parts",
    "    where = partial_ptr + start + lanes",
    "    counts = tl.load(where, mask=lane_mask, other=0.0)",
    "    rough = tl.load(where + n_partial, mask=lane_mask, other=0.0) - base",
    "    means = rough + tl.load(where + 2 * n_partial, mask=lane_mask, other=0.0)",
    "    counted = tl.sum(counts)",
    "    middle = tl.sum(counts * means) / tl.maximum(counted, 1.0)",
    "    apart = means - middle",
    "    spread = tl.load(where + 3 * n_partial, mask=lane_mask, other=0.0) + counts * apart * apart",
    "    total = count + counted",
    "    away = middle - mean",
    "    m2 += tl.sum(spread) + away * away * (count * counted / total)",
    "    mean += away * (counted / total)",
    "    count = total",
    "mean += base",
]
"""Join all partial results of a channel, always in the same order: counts, means (each in two parts, because a rounded
mean is as far off as a large mean is large) and squared deviations."""


class StatisticsPlaybook(Playbook):
    """Mean and variance by channel over samples and pixels: the statistics of a batch norm in train mode."""

    name = "statistics"
    operators = BATCH_NORMS
    guidance = (
        "Batch norm in train mode over [samples, channels, pixels]: cut the planes into pieces, one program a piece, "
        "so that every multiprocessor reads at full width; a piece of 4096 elements stays in registers and gives "
        "count, mean and squared deviations from that mean. One program a channel joins them (Chan's rule; never sum "
        "raw squares: a large mean would cancel them) and computes scale and running statistics. Normalizing is then "
        "elementwise with one number a channel: put it into whatever reads the result, a pooling or a row reduction, "
        "else into one pass of its own. That reads the input twice and writes once; the library needs three times that."
    )
    complexity = 4
    shared_memory_knobs = ("BLOCK",)
    register_knobs = ("BLOCK", "ROWS")

    def match(self, graph: CapturedGraph, start: str, free: frozenset[str]) -> Group | None:
        """Grow a group around the statistics at `start`: others of the same tensor, and what follows by channel."""
        if not is_statistic(graph, graph[start]):
            return None

        def may_join(name: str) -> bool:
            node = graph[name]
            return is_pointwise(node) or is_statistic(graph, node) or is_moving(node, graph)

        group = grow(
            graph, [start], free, may_join, lambda nodes: StatisticsWriter(graph, nodes, "probe"),
            sibling=lambda name: is_statistic(graph, graph[name]),
        )  # fmt: skip
        return None if group is None else Group.of(graph, self.name, set(without_last_views(graph, group)))

    def write(
        self, graph: CapturedGraph, group: Group, name: str, precision: Precision, target: Hardware | None = None
    ) -> KernelCode:
        """Write both kernels and the wrapper. Sums are in fp32."""
        return StatisticsWriter(graph, frozenset(group.nodes), name).code()


def is_statistic(graph: CapturedGraph, node: Node) -> bool:
    """Return whether a node is a mean or variance over all dimensions but the second of at least three."""
    if not is_reduction(node) or node.base not in ("mean", "var") or not node.is_float:
        return False
    rank = graph[node.inputs[0]].rank
    return rank >= 3 and dimensions_of(node, rank) == set(range(rank)) - {1}


class _JoinBody(Body):
    """What follows from a channel's statistics, one channel a program."""

    def __init__(self, graph: CapturedGraph, nodes: frozenset[str]) -> None:
        super().__init__(graph, nodes)
        self.reserve([*NAMES, "partial_ptr", "counts", "means", "middle", "spread", "total", "away"])

    def reduce(self, node: Node, index: Index) -> str:
        if not is_statistic(self.graph, node) or index != CHANNEL:
            raise Unfusable(f"{node.op} is no statistic of a channel")
        if node.base == "mean":
            return "mean"
        bessel = correction(node)
        return self.assign(node.name, f"m2 / {'count' if bessel == 0 else f'(count - {bessel:g})'}", index)


class StatisticsWriter:
    """Writes both kernels and their wrapper.

    Raises:
        Unfusable: if the statistics are of several tensors, or an output has neither their size nor the tensor's.
    """

    def __init__(self, graph: CapturedGraph, nodes: frozenset[str], name: str) -> None:
        self.graph, self.name = graph, name
        statistics = [n for n in graph.nodes if n.name in nodes and is_statistic(graph, n)]
        for node in statistics:
            check(graph, node)
        sources = {node.inputs[0] for node in statistics}
        if len(sources) != 1:
            raise Unfusable("statistics of several tensors")
        source = graph[sources.pop()]
        self.space = space_of_channels(source)
        self.outputs = graph.writes(nodes)
        self.labels = {}
        self.in_place: dict[str, str] = {}
        self.parts = ChannelBody(graph, nodes, self.space)
        self.join = _JoinBody(graph, nodes)
        self.join.share_labels(self.parts)
        self.value = self.parts.value(source.name, TILE)
        for place, output in enumerate(self.outputs):
            label = self.labels[output] = self.parts.out(place, len(self.outputs))
            if graph[output].shapes == source.shapes:
                self.parts.store_tile(label, self.parts.value(output, TILE))
            elif graph[output].numel == self.space.reduced:
                value = self.join.value(output, CHANNEL)
                if (buffer := self._buffer_of(output, nodes)) is not None:
                    label = self.labels[output] = self.join.label(buffer)
                    self.in_place[output] = label
                self.join.store(label, value, CHANNEL)
            else:
                raise Unfusable(f"{output} is neither a channel's nor of the tensor's shape")
        self.full = [o for o in self.outputs if graph[o].shapes == source.shapes]
        self.wrapper = Wrapper(graph, self.parts, name, self.join)
        self.wrapper.in_place = self.in_place
        self.doc = describe(graph, graph.ordered(nodes), self.outputs)

    def _buffer_of(self, output: str, nodes: frozenset[str]) -> str | None:
        """Return the buffer that takes an output's value, if one program reads and writes each of its elements."""
        graph = self.graph
        targets = [target for target, name in graph.mutations.items() if name == output]
        buffer = next((p for p in graph.placeholders if p.kind == "buffer" and p.target in targets), None)
        if buffer is None or len(targets) > 1 or output in graph.answers or graph.users[output]:
            return None
        alike = buffer.shapes == graph[output].shapes and buffer.dtype == graph[output].dtype
        alone = set(graph.users[buffer.name]) <= nodes and buffer.name not in (*graph.answers, *self.parts.roots)
        return buffer.name if alike and alone and buffer.name in self.join.roots else None

    def code(self) -> KernelCode:
        """Write the source."""
        sources = (self._parts_kernel(), self._join_kernel(), self._wrapper())
        summary = f"statistics by channel, from pieces of planes: {self.doc}"
        return self.wrapper.code(self.outputs, sources, tuning(self.space), summary)

    def _parts_kernel(self) -> str:
        body = self.parts
        lines = [
            "pid = tl.program_id(0)",
            *HEAD,
            MASK,
            *(WHOLE if self.full else ()),
            *body.lines,
            *COUNTED,
            f"rough = tl.sum(tl.where(mask, {self.value}, 0.0)) / tl.maximum(count, 1.0)",
            f"apart = tl.where(mask, {self.value} - rough, 0.0)",
            "rest = tl.sum(apart) / tl.maximum(count, 1.0)  # what rounding took from the mean",
            "n_parts = tl.cdiv(n_samples, ROWS) * n_pieces",
            "n_partial = n_channels * n_parts",
            "where = partial_ptr + which * n_parts + group * n_pieces + piece",
            "tl.store(where, count)",
            "tl.store(where + n_partial, rough)",
            "tl.store(where + 2 * n_partial, rest)",
            "tl.store(where + 3 * n_partial, tl.sum(apart * apart) - count * rest * rest)",
        ]
        arguments = [
            *(f"{body.label(root)}_ptr" for root in body.roots), "partial_ptr",
            *(f"{self.labels[o]}_ptr" for o in self.full), *SIZES, *body.numbers.values(),
            *(f"{n}: tl.constexpr" for n in [*body.sizes.values(), *CONSTANTS]),
        ]  # fmt: skip
        doc = "Each program counts one piece of a channel, and finds its mean and squared deviations."
        return kernel(f"{self.name}_parts_kernel", arguments, doc, lines)

    def _join_kernel(self) -> str:
        body = self.join
        arguments = [
            *(f"{body.label(root)}_ptr" for root in body.roots), "partial_ptr",
            *(f"{self.labels[o]}_ptr" for o in self._made()), "n_parts", *body.numbers.values(),
            *(f"{n}: tl.constexpr" for n in [*body.sizes.values(), "LANES"]),
        ]  # fmt: skip
        doc = "Each program joins the pieces of one channel."
        return kernel(f"{self.name}_join_kernel", arguments, doc, [*JOINED, *body.lines])

    def _wrapper(self) -> str:
        wrapper, name = self.wrapper, self.name
        returned = [o for o in self.outputs if o not in self.in_place]
        lines = [f"{self.labels[o]} = {wrapper.allocation(o)}" for o in returned]
        lines += [
            *sizes_of(wrapper, self.space, name),
            f"partial = torch.empty((4, n_channels, groups * pieces), device={wrapper.labels[0]}.device, "
            "dtype=torch.float32)",
        ]
        for kind, body, grid, outputs, rest in (
            ("parts", self.parts, "groups * n_channels * pieces", self.full,
             ["n_samples", "n_channels", "n_pixels", "pieces"]),
            ("join", self.join, "n_channels", self._made(), ["groups * pieces"]),
        ):  # fmt: skip
            constants = launch_constants(name)
            if kind == "join":
                constants = [f"LANES=min({MOST_LANES}, triton.next_power_of_2(groups * pieces))", "num_warps=8"]
            arguments = [
                *(body.label(root) for root in body.roots), "partial", *(self.labels[o] for o in outputs), *rest,
                *wrapper.runtime_numbers(body), *wrapper.constants(body), *constants,
            ]  # fmt: skip
            lines += call(f"{name}_{kind}_kernel[({grid},)]", arguments, indent=4)
        lines += wrapper.copied_back()
        lines.append(f"return {', '.join(self.labels[o] for o in returned)}")
        return wrapper.function(f"{self.doc}.", lines)

    def _made(self) -> list[str]:
        """Return the outputs by channel that get memory of their own."""
        return [o for o in self.outputs if o not in self.full and o not in self.in_place]
