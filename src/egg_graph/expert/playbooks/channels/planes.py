"""Elementwise chains with numbers by channel, such as normalizing: a piece of one plane a program."""

from math import prod

from egg_graph.expert.capture.graph import CapturedGraph, Node
from egg_graph.expert.codegen.expressions import is_pointwise
from egg_graph.expert.codegen.fusion import is_flat_view, is_moving
from egg_graph.expert.codegen.group import Group, KernelCode
from egg_graph.expert.codegen.indexing import Unfusable, runs
from egg_graph.expert.codegen.launch import Wrapper, call, describe, kernel
from egg_graph.expert.playbooks.channels.statistics import BATCH_NORMS
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
from egg_graph.expert.playbooks.grow import grow
from egg_graph.expert.playbooks.playbook import LIBRARY, Alternative, Playbook
from egg_graph.expert.playbooks.survey import survey_of
from egg_graph.schema import Hardware, Precision

SURVEYED_PLANE = 126 * 126
"""Pixels of the shortest plane that was surveyed."""
LEAST_BY_LINE = 2
"""Operands by channel or by plane from which on a chain is worth programs that each stay in one channel."""


class PlanesPlaybook(Playbook):
    """Chains of elementwise operators over [samples, channels, pixels] with several operands by channel."""

    name = "planes"
    operators = BATCH_NORMS
    guidance = (
        "Elementwise chain over [samples, channels, pixels] with several operands by channel (normalizing by mean and "
        "scale, then weight, bias, activation): give each program a piece of one plane, or the same small plane of "
        "several samples, so that each such operand is one number of the program; a flat kernel would divide for every "
        "element and load four bytes at a time. Begin a piece at a multiple of 16 bytes, also where the plane begins "
        "in between, and store the edges apart. Walk the tensor from its end: what the statistics read last is still "
        "in L2."
    )
    alternatives = (
        Alternative(LIBRARY, "parallel_mapping", "one flat pass needs no edges where planes are short or uneven"),
    )  # fmt: skip
    complexity = 2
    shared_memory_knobs = ("BLOCK",)
    register_knobs = ("BLOCK", "ROWS")

    def match(self, graph: CapturedGraph, start: str, free: frozenset[str]) -> Group | None:
        """Grow a chain from an elementwise node with an operand by channel or plane; outputs have that node's shape."""
        node = graph[start]
        if not is_pointwise(node) or not any(is_by_line(graph[i], node) for i in node.inputs):
            return None

        def may_join(name: str) -> bool:
            other = graph[name]
            if is_moving(other, graph):
                return True
            return is_pointwise(other) and (other.numel == node.numel or max(other.numel) < max(node.numel))

        def write(nodes: frozenset[str]) -> PlanesWriter:
            return PlanesWriter(graph, nodes, node, "probe")

        group = grow(graph, [start], free, may_join, write)
        if group is None:
            return None
        group = _trimmed(graph, group)
        by_line = [r for r in write(group).body.roots if is_by_line(graph[r], node)]
        return Group.of(graph, self.name, set(group)) if len(by_line) >= LEAST_BY_LINE else None

    def measured(self, graph: CapturedGraph, group: Group, precision: Precision, target: Hardware) -> str:
        """Return the survey for planes as long as those that moved at the rate of memory there."""
        plane = prod(graph[group.outputs[0]].shape[2:])
        return survey_of(graph, group, precision, target) if plane >= SURVEYED_PLANE else ""

    def write(
        self, graph: CapturedGraph, group: Group, name: str, precision: Precision, target: Hardware | None = None
    ) -> KernelCode:
        """Write kernel and wrapper. Arithmetic is in fp32."""
        return PlanesWriter(graph, frozenset(group.nodes), graph[group.outputs[0]], name).code()


def is_by_channel(operand: Node, node: Node) -> bool:
    """Return whether an operand has one element for each channel of a node with at least three dimensions."""
    if not node.shapes or node.rank < 3 or not operand.shapes or set(node.size(1)) == {1}:
        return False
    if operand.rank == 1:  # ahead of its view
        return operand.numel == node.size(1)
    try:
        return runs(operand.shapes, node.shapes) == space_of_channels(node).pattern(False, True, False)
    except Unfusable:
        return False


def is_by_line(operand: Node, node: Node) -> bool:
    """Return whether an operand is constant along every plane of a node with at least three dimensions."""
    if is_by_channel(operand, node):
        return True
    if not node.shapes or node.rank < 3 or not operand.shapes or set(node.size(1)) == {1}:
        return False
    try:
        return space_of_channels(node).lines_together(runs(operand.shapes, node.shapes)) is not None
    except Unfusable:
        return False


def _trimmed(graph: CapturedGraph, group: frozenset[str]) -> frozenset[str]:
    """Drop the views at the chain's end: outside they cost nothing."""
    while last := [n for n in graph.writes(group) if is_flat_view(graph[n])]:
        group = group - set(last)
    return group


class PlanesWriter:
    """Writes kernel and wrapper.

    Raises:
        Unfusable: if an output has another number of elements, or cannot be computed in one pass.
    """

    def __init__(self, graph: CapturedGraph, nodes: frozenset[str], like: Node, name: str) -> None:
        self.graph, self.name = graph, name
        self.outputs = graph.writes(nodes)
        if any(graph[o].numel != like.numel for o in self.outputs):
            raise Unfusable("an output differs in size")
        self.space = space_of_channels(like)
        body = self.body = ChannelBody(graph, nodes, self.space)
        values = [body.value(o, TILE) for o in self.outputs]
        self.labels = [body.out(i, len(values)) for i in range(len(values))]
        for label, value in zip(self.labels, values, strict=True):
            body.store_tile(label, value)
        self.wrapper = Wrapper(graph, body, name)
        self.doc = describe(graph, graph.ordered(nodes), self.outputs)

    def code(self) -> KernelCode:
        """Write the source."""
        sources = (self._kernel(), self._wrapper())
        return self.wrapper.code(self.outputs, sources, tuning(self.space), f"elementwise by channel: {self.doc}")

    def _kernel(self) -> str:
        body = self.body
        lines = [
            "pid = tl.num_programs(0) - 1 - tl.program_id(0)  # backwards: what was read last is still in L2",
            *HEAD, MASK, *WHOLE, *body.lines,
        ]  # fmt: skip
        arguments = [
            *(f"{body.label(root)}_ptr" for root in body.roots), *(f"{label}_ptr" for label in self.labels), *SIZES,
            *body.numbers.values(), *(f"{n}: tl.constexpr" for n in [*body.sizes.values(), *CONSTANTS]),
        ]  # fmt: skip
        return kernel(f"{self.name}_kernel", arguments, f"{self.doc}, a piece of one plane a program.", lines)

    def _wrapper(self) -> str:
        wrapper, name = self.wrapper, self.name
        lines = [f"{lb} = {wrapper.allocation(o)}" for lb, o in zip(self.labels, self.outputs, strict=True)]
        lines += sizes_of(wrapper, self.space, name)
        arguments = [
            *wrapper.labels, *self.labels, "n_samples", "n_channels", "n_pixels", "pieces",
            *wrapper.runtime_numbers(), *wrapper.constants(), *launch_constants(name),
        ]  # fmt: skip
        lines += call(f"{name}_kernel[(groups * n_channels * pieces,)]", arguments, indent=4)
        lines.append(f"return {', '.join(self.labels)}")
        return wrapper.function(f"{self.doc}.", lines)
