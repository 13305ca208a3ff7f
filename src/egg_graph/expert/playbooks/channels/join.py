"""Mean and variance of every channel, or of every group of a sample's channels, from the moments of their parts."""

from egg_graph.expert.capture.graph import CapturedGraph, Node
from egg_graph.expert.codegen.expressions import is_pointwise
from egg_graph.expert.codegen.fusion import Body, is_moving
from egg_graph.expert.codegen.group import Group, KernelCode, Tuning
from egg_graph.expert.codegen.indexing import Index, Unfusable
from egg_graph.expert.codegen.launch import Wrapper, call, describe, kernel
from egg_graph.expert.codegen.parts import MEAN, NUMBERS, OF_PARTS, is_by_sample
from egg_graph.expert.playbooks.channels.statistics import BATCH_NORMS
from egg_graph.expert.playbooks.grow import grow, without_last_views
from egg_graph.expert.playbooks.playbook import Playbook
from egg_graph.schema import Hardware, Precision

ROW = Index("row")
"""The program's result, in a tensor with one element for each of them."""
MOST_LANES = 4096
"""Parts that one program holds at a time."""
JOINED = (
    "row = tl.program_id(0) + tl.zeros([1], tl.int32)",
    f"parts_ptr += tl.program_id(0).to(tl.int64) * row_stride * {NUMBERS}",
    "lanes = tl.arange(0, LANES)",
    "base = tl.load(parts_ptr + 1)  # means are joined as distances from one of them",
    "count = 0.0",
    "mean = 0.0",
    "m2 = 0.0",
    "for start in range(0, n_parts, LANES):",
    "    lane = start + lanes",
    "    lane_mask = lane < n_parts",
    f"    part = parts_ptr + (lane // n_together * apart_stride + lane % n_together).to(tl.int64) * {NUMBERS}",
    "    counts = tl.load(part, mask=lane_mask, other=0.0)",
    "    rough = tl.load(part + 1, mask=lane_mask, other=0.0) - base",
    "    means = rough + tl.load(part + 2, mask=lane_mask, other=0.0)",
    "    counted = tl.sum(counts)",
    "    middle = tl.sum(counts * means) / tl.maximum(counted, 1.0)",
    "    apart = means - middle",
    "    spread = tl.load(part + 3, mask=lane_mask, other=0.0) + counts * apart * apart",
    "    total = count + counted",
    "    away = middle - mean",
    "    share = counted / tl.maximum(total, 1.0)",
    "    m2 += tl.sum(spread) + away * away * count * share",
    "    mean += away * share",
    "    count = total",
    "mean += base",
)
"""Join all parts of a row, always in the same order: counts, means (each in two parts, because a rounded mean is as far
off as a large mean is large) and squared deviations. Of a row `n_together` parts lie side by side."""
NAMES = ("row", "lane", "lanes", "part", "counts", "means", "middle", "rough", "apart", "spread", "total", "away", "m2",
         "base", "mean", "counted", "n_parts", "n_together", "row_stride", "apart_stride", "parts_ptr")  # fmt: skip


class JoinPlaybook(Playbook):
    """Mean and variance from the moments of parts, and what follows from them: scale, running statistics."""

    name = "join"
    operators = BATCH_NORMS
    guidance = (
        "Joining the moments of parts: one program a channel (a group of a sample's channels, for a group norm) reads "
        "count, mean and squared deviations of all parts in fixed order, joins them by Chan's rule as distances from "
        "one of the means, and computes what follows: the scale, and the running statistics in place."
    )
    complexity = 4

    def match(self, graph: CapturedGraph, start: str, free: frozenset[str]) -> Group | None:
        """Grow a group around the statistic at `start`: others of the same parts, and what follows by channel."""
        node = graph[start]
        if node.op not in OF_PARTS:
            return None

        def may_join(name: str) -> bool:
            return is_pointwise(graph[name]) or graph[name].op in OF_PARTS or is_moving(graph[name], graph)

        group = grow(
            graph, [start], free, may_join, lambda nodes: JoinWriter(graph, nodes, "probe"),
            sibling=lambda name: graph[name].op in OF_PARTS and graph[name].inputs == node.inputs,
        )  # fmt: skip
        return None if group is None else Group.of(graph, self.name, set(without_last_views(graph, group)))

    def write(
        self, graph: CapturedGraph, group: Group, name: str, precision: Precision, target: Hardware | None = None
    ) -> KernelCode:
        """Write kernel and wrapper. Sums are in fp32."""
        return JoinWriter(graph, frozenset(group.nodes), name).code()


class _JoinBody(Body):
    """What follows from a row's statistics, one row a program."""

    def __init__(self, graph: CapturedGraph, nodes: frozenset[str]) -> None:
        super().__init__(graph, nodes)
        self.reserve(NAMES)

    def reduce(self, node: Node, index: Index) -> str:
        if node.op not in OF_PARTS or index != ROW:
            raise Unfusable(f"{node.op} is no statistic of a channel")
        if node.op == MEAN:
            return "mean"
        bessel = float(str(node.args[1]))
        return self.assign(node.name, f"m2 / {'count' if bessel == 0 else f'(count - {bessel:g})'}", index)


class JoinWriter:
    """Writes the kernel and its wrapper.

    Raises:
        Unfusable: if the statistics are of several tensors, or an output has another size.
    """

    def __init__(self, graph: CapturedGraph, nodes: frozenset[str], name: str) -> None:
        self.graph, self.name = graph, name
        statistics = [n for n in graph.nodes if n.name in nodes and n.op in OF_PARTS]
        sources = {node.inputs[0] for node in statistics}
        if len(sources) != 1:
            raise Unfusable("statistics of several tensors")
        self.parts = graph[sources.pop()]
        self.outputs = graph.writes(nodes)
        self.labels: dict[str, str] = {}
        self.in_place: dict[str, str] = {}
        self.body = _JoinBody(graph, nodes)
        self.body.roots.append(self.parts.name)
        for place, output in enumerate(self.outputs):
            if graph[output].numel != statistics[0].numel:
                raise Unfusable(f"{output} is no number of a channel")
            label, value = self.body.out(place, len(self.outputs)), self.body.value(output, ROW)
            if (buffer := self._buffer_of(output, nodes)) is not None:
                label = self.in_place[output] = self.body.label(buffer)
            self.labels[output] = label
            self.body.store(label, value, ROW)
        self.wrapper = Wrapper(graph, self.body, name, unsized=(self.parts.name,))
        self.wrapper.in_place = self.in_place
        self.statistic = statistics[0]
        label = self.body.label(self.parts.name)
        self.wrapper.know(f"{label}.shape[1]", self.parts.size(1))
        if is_by_sample(self.parts):
            self.wrapper.know(f"{label}.shape[0]", self.parts.size(0))
        self.doc = describe(graph, graph.ordered(nodes), self.outputs)

    def _buffer_of(self, output: str, nodes: frozenset[str]) -> str | None:
        """Return the buffer that takes an output's value, if one program reads and writes each of its elements."""
        graph = self.graph
        targets = [target for target, name in graph.mutations.items() if name == output]
        buffer = next((p for p in graph.placeholders if p.kind == "buffer" and p.target in targets), None)
        if buffer is None or len(targets) > 1 or output in graph.answers or graph.users[output]:
            return None
        alike = buffer.shapes == graph[output].shapes and buffer.dtype == graph[output].dtype
        alone = set(graph.users[buffer.name]) <= nodes and buffer.name not in graph.answers
        return buffer.name if alike and alone and buffer.name in self.body.roots else None

    def code(self) -> KernelCode:
        """Write the source."""
        sources = (self._kernel(), self._wrapper())
        return self.wrapper.code(self.outputs, sources, Tuning({}, {}), f"statistics from moments of parts: {self.doc}")

    def _kernel(self) -> str:
        body = self.body
        arguments = [
            *(f"{body.label(root)}_ptr" for root in body.roots), *(f"{self.labels[o]}_ptr" for o in self._made()),
            "n_parts", "n_together", "row_stride", "apart_stride", *body.numbers.values(),
            *(f"{n}: tl.constexpr" for n in [*body.sizes.values(), "LANES"]),
        ]  # fmt: skip
        label = body.label(self.parts.name)
        lines = [line.replace("parts_ptr", f"{label}_ptr") for line in JOINED]
        return kernel(
            f"{self.name}_kernel", arguments, "Each program joins the parts of one result.", [*lines, *body.lines]
        )

    def _wrapper(self) -> str:
        wrapper, body, parts = self.wrapper, self.body, self.body.label(self.parts.name)
        returned = [o for o in self.outputs if o not in self.in_place]
        lines = [f"{self.labels[o]} = {wrapper.allocation(o)}" for o in returned]
        if is_by_sample(self.parts):
            lines.append(f"rows = {parts}.shape[0] * {wrapper.size(self.statistic.size(1))}")
            together = ["n_parts", "n_parts", "0"]
        else:  # those of a channel lie apart, by groups of samples
            lines.append(f"rows = {parts}.shape[1]")
            together = [f"{parts}.shape[2]", f"{parts}.shape[2]", f"{parts}.shape[1] * {parts}.shape[2]"]
        lines.append(f"n_parts = {parts}.numel() // ({NUMBERS} * rows)")
        arguments = [
            *(body.label(root) for root in body.roots), *(self.labels[o] for o in self._made()), "n_parts", *together,
            *wrapper.runtime_numbers(), *wrapper.constants(),
            f"LANES=min({MOST_LANES}, triton.next_power_of_2(n_parts))", "num_warps=8",
        ]  # fmt: skip
        lines += call(f"{self.name}_kernel[(rows,)]", arguments, indent=4)
        lines += wrapper.copied_back()
        lines.append(f"return {', '.join(self.labels[o] for o in returned)}")
        return wrapper.function(f"{self.doc}.", lines)

    def _made(self) -> list[str]:
        """Return the outputs that get memory of their own."""
        return [o for o in self.outputs if o not in self.in_place]
