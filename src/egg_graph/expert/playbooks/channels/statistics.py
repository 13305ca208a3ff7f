"""Moments of the pieces of every channel of [samples, channels, pixels], where no kernel leaves them that makes it."""

from egg_graph.expert.capture.graph import CapturedGraph
from egg_graph.expert.codegen.expressions import is_pointwise
from egg_graph.expert.codegen.fusion import is_moving
from egg_graph.expert.codegen.group import Group, KernelCode, Tuning
from egg_graph.expert.codegen.indexing import Unfusable
from egg_graph.expert.codegen.launch import Wrapper, call, describe, kernel
from egg_graph.expert.codegen.parts import NUMBERS, PARTS, is_by_sample
from egg_graph.expert.playbooks.channels.tile import (
    CONSTANTS,
    HEAD,
    MASK,
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
COUNTED = (
    "counted = tl.maximum(tl.minimum(end, first + BLOCK) - tl.maximum(begin, first), 0)",
    "count = tl.sum(tl.where(row_mask, counted, 0)).to(tl.float32)",
)


class StatisticsPlaybook(Playbook):
    """Count, mean and squared deviations of the pieces of every channel, for a batch norm in train mode."""

    name = "statistics"
    operators = BATCH_NORMS
    guidance = (
        "Batch norm in train mode over [samples, channels, pixels]: cut the planes into pieces, one program a piece, "
        "so that every multiprocessor reads at full width; a piece of 4096 elements stays in registers and gives "
        "count, mean and squared deviations from that mean (never sum raw squares: a large mean would cancel them). "
        "One more program a channel joins them. Normalizing is then elementwise with one number a channel: put it into "
        "whatever reads the result, a pooling or a row reduction, else into one pass of its own. A convolution ahead "
        "leaves its tiles' moments itself: its output is then read once, to normalize it."
    )
    complexity = 4
    shared_memory_knobs = ("BLOCK",)
    register_knobs = ("BLOCK", "ROWS")

    def match(self, graph: CapturedGraph, start: str, free: frozenset[str]) -> Group | None:
        """Group the parts at `start` with the elementwise work that makes what they are of."""
        if graph[start].op != PARTS:
            return None

        def may_join(name: str) -> bool:
            return is_pointwise(graph[name]) or is_moving(graph[name], graph)

        group = grow(graph, [start], free, may_join, lambda nodes: StatisticsWriter(graph, nodes, "probe"))
        return None if group is None else Group.of(graph, self.name, set(without_last_views(graph, group)))

    def write(
        self, graph: CapturedGraph, group: Group, name: str, precision: Precision, target: Hardware | None = None
    ) -> KernelCode:
        """Write kernel and wrapper. Sums are in fp32."""
        return StatisticsWriter(graph, frozenset(group.nodes), name).code()


class StatisticsWriter:
    """Writes the kernel and its wrapper.

    Raises:
        Unfusable: if there are parts of several tensors, or an output has not the tensor's size.
    """

    def __init__(self, graph: CapturedGraph, nodes: frozenset[str], name: str) -> None:
        self.graph, self.name = graph, name
        found = [graph[n] for n in nodes if graph[n].op == PARTS]
        if len(found) != 1:
            raise Unfusable("parts of several tensors")
        self.made = found[0]
        source = graph[self.made.inputs[0]]
        if source.dtype == "float64":
            raise Unfusable("kernels compute in fp32")
        self.space = space_of_channels(source)
        self.body = ChannelBody(graph, nodes, self.space)
        self.body.reserve(("part", "parts"))
        self.value = self.body.value(source.name, TILE)
        self.outputs = graph.writes(nodes)
        self.full = [output for output in self.outputs if output != self.made.name]
        self.labels = {self.made.name: "parts"}
        for place, output in enumerate(self.full):
            if graph[output].shapes != source.shapes:
                raise Unfusable(f"{output} has not the tensor's shape")
            self.labels[output] = self.body.out(place, len(self.full))
            self.body.store_tile(self.labels[output], self.body.value(output, TILE))
        self.wrapper = Wrapper(graph, self.body, name)
        self.doc = describe(graph, graph.ordered(nodes), self.outputs)

    def code(self) -> KernelCode:
        """Write the source."""
        knobs = tuning(self.space)
        if is_by_sample(self.made):  # then a part is of one sample
            knobs = Tuning({**knobs.config, "ROWS": 1}, knobs.without(("ROWS",)).space)
        sources = (self._kernel(), self._wrapper())
        return self.wrapper.code(self.outputs, sources, knobs, f"moments of pieces of planes: {self.doc}")

    def _kernel(self) -> str:
        body = self.body
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
            f"part = parts_ptr + ((group * n_channels + which) * n_pieces + piece) * {NUMBERS}",
            "tl.store(part, count)",
            "tl.store(part + 1, rough)",
            "tl.store(part + 2, rest)",
            "tl.store(part + 3, tl.sum(apart * apart) - count * rest * rest)",
        ]
        arguments = [
            *(f"{body.label(root)}_ptr" for root in body.roots), "parts_ptr",
            *(f"{self.labels[o]}_ptr" for o in self.full), *SIZES, *body.numbers.values(),
            *(f"{n}: tl.constexpr" for n in [*body.sizes.values(), *CONSTANTS]),
        ]  # fmt: skip
        doc = "Each program counts one piece of a channel, and finds its mean and squared deviations."
        return kernel(f"{self.name}_kernel", arguments, doc, lines)

    def _wrapper(self) -> str:
        wrapper, body = self.wrapper, self.body
        device = f"device={wrapper.labels[0]}.device"
        arguments = [
            *(body.label(root) for root in body.roots), "parts", *(self.labels[o] for o in self.full),
            "n_samples", "n_channels", "n_pixels", "pieces", *wrapper.runtime_numbers(), *wrapper.constants(),
            *launch_constants(self.name),
        ]  # fmt: skip
        lines = [
            *(f"{self.labels[o]} = {wrapper.allocation(o)}" for o in self.full),
            *sizes_of(wrapper, self.space, self.name),
            f"parts = torch.empty((groups, n_channels, pieces, {NUMBERS}), {device}, dtype=torch.float32)",
            *call(f"{self.name}_kernel[(groups * n_channels * pieces,)]", arguments, indent=4),
            f"return {', '.join(self.labels[o] for o in self.outputs)}",
        ]
        return wrapper.function(f"{self.doc}.", lines)
