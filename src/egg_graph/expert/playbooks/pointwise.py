"""Elementwise chains: one pass over memory, however long the chain is."""

from egg_graph.expert.capture.graph import CapturedGraph, Node
from egg_graph.expert.codegen.expressions import NARROW, POINTWISE, is_pointwise
from egg_graph.expert.codegen.fusion import Body, is_flat_view, is_joinable, is_moving
from egg_graph.expert.codegen.group import Group, KernelCode, Tuning
from egg_graph.expert.codegen.indexing import OFFSETS, Unfusable
from egg_graph.expert.codegen.joining import concatenated
from egg_graph.expert.codegen.launch import Wrapper, call, describe, kernel
from egg_graph.expert.playbooks.grow import grow
from egg_graph.expert.playbooks.playbook import Playbook
from egg_graph.schema import Hardware, Precision

SHORT = 2
"""Up to this many operators, memory alone sets the pace on an H200: 4 elements a thread were up to 4 % faster than 8 on
11 of 12 chains (BLOCK 1024 against 2048, 8 warps, 1.6e9 elements of fp32). Two longer chains lost 8 and 11 % by it.
Of elements of 16 bit it takes 8 to load 16 bytes at once."""
SLOW = frozenset({"softplus"})
"""Helpers so long that they count as a chain: softplus alone lost 9 % by it."""


class PointwisePlaybook(Playbook):
    """Chains of elementwise operators with broadcasting, as one kernel over the flat output."""

    name = "pointwise"
    operators = POINTWISE
    guidance = (
        "Elementwise chain: fuse the whole chain into one kernel over the flat output, so that every tensor crosses "
        "DRAM once; 8 to 16 elements a thread in 16-byte accesses (BLOCK 1024 to 4096, 4 or 8 warps). A broadcast "
        "operand is indexed by `offsets // INNER % SIZE` with constexpr sizes: division by a run-time number would "
        "cost more than the memory. Compute in fp32. Next to a GEMM, convolution or row reduction the chain belongs "
        "into that kernel; alone it can only tie with torch.compile."
    )

    complexity = 1

    def match(self, graph: CapturedGraph, start: str, free: frozenset[str]) -> Group | None:
        """Grow a chain from the elementwise node at `start`; all its outputs have one size."""
        node = graph[start]
        if not is_pointwise(node) or set(node.numel) == {1} or _is_part_of_more(graph, node, free):
            return None
        numel = node.numel

        def may_join(name: str) -> bool:
            other = graph[name]
            if is_moving(other, graph) or _is_fusable_join(graph, other):
                return True
            return is_pointwise(other) and (other.numel == numel or max(other.numel) < max(numel))

        group = grow(graph, [start], free, may_join, lambda nodes: _PointwiseWriter(graph, nodes, "probe"))
        if group is None or all(is_moving(graph[n], graph) or graph[n].base == "detach" for n in group):
            return None
        return Group.of(graph, self.name, set(_trimmed(graph, group)))

    def write(
        self, graph: CapturedGraph, group: Group, name: str, precision: Precision, target: Hardware | None = None
    ) -> KernelCode:
        """Write kernel and wrapper. The knobs depend on the numbers of elements and operators alone."""
        return _PointwiseWriter(graph, frozenset(group.nodes), name).code(group)


def _is_fusable_join(graph: CapturedGraph, node: Node) -> bool:
    """Return whether a chain may select from a concatenation's parts. Convolutions write those of channels in place."""
    return is_joinable(graph, node) and not concatenated(graph, node)


def _is_part_of_more(graph: CapturedGraph, node: Node, free: frozenset[str]) -> bool:
    """Return whether a chain over a concatenation will compute this node where it lies, as the one reader it has."""
    joined = _reader(graph, node)
    if joined is None or not _is_fusable_join(graph, joined):
        return False
    reader = _reader(graph, joined)
    return reader is not None and is_pointwise(reader) and reader.name in free


def _reader(graph: CapturedGraph, node: Node) -> Node | None:
    """Return the one node that reads another, perhaps through views; None where there are several or none."""
    while len(graph.users[node.name]) == 1 and node.name not in graph.returned:
        node = graph[graph.users[node.name][0]]
        if not is_flat_view(node):
            return node
    return None


def _trimmed(graph: CapturedGraph, group: frozenset[str]) -> frozenset[str]:
    """Drop the views at the chain's end: outside they cost nothing, and the output keeps its operand's shape."""
    while True:
        last = [n for n in graph.writes(group) if is_flat_view(graph[n])]
        if not last or len(group) == 1:
            return group
        group = group - set(last)


class _PointwiseWriter:
    """Writes kernel and wrapper."""

    def __init__(self, graph: CapturedGraph, nodes: frozenset[str], name: str) -> None:
        self.graph, self.name = graph, name
        self.outputs = graph.writes(nodes)
        numels = {graph[o].numel for o in self.outputs}
        if len(numels) != 1 or any(not graph[o].shapes for o in self.outputs):
            raise Unfusable("the outputs differ in size")
        self.numel = numels.pop()
        self.body = Body(graph, nodes)
        values = [self.body.value(o, OFFSETS) for o in self.outputs]
        self.labels = [self.body.out(i, len(values)) for i in range(len(values))]
        for label, value in zip(self.labels, values, strict=True):
            self.body.store(label, value, OFFSETS)
        self.wrapper = Wrapper(graph, self.body, name)

    def code(self, group: Group) -> KernelCode:
        doc = describe(self.graph, group.nodes, group.outputs)
        sources = (self._kernel(doc), self._wrapper(doc))
        operators = sum(is_pointwise(self.graph[node]) for node in group.nodes)
        wide = any(self.graph[t].dtype not in NARROW for t in (*group.inputs, *group.outputs) if self.graph[t].is_float)
        short = wide and operators <= SHORT and not SLOW & set(self.body.helpers)
        tuning = _tuning(self.numel[0], short=short)
        return self.wrapper.code(self.outputs, sources, tuning, f"one elementwise kernel: {doc}")

    def _kernel(self, doc: str) -> str:
        body = self.body
        arguments = [
            *(f"{body.label(root)}_ptr" for root in body.roots), *(f"{label}_ptr" for label in self.labels),
            "n_elements", *body.numbers.values(), *(f"{s}: tl.constexpr" for s in body.sizes.values()),
            "BLOCK: tl.constexpr", "WIDE: tl.constexpr",
        ]  # fmt: skip
        lines = [
            "pid = tl.program_id(0)",
            "if WIDE:  # more elements than 32 bits can count",
            "    pid = pid.to(tl.int64)",
            "offsets = pid * BLOCK + tl.arange(0, BLOCK)",
            "mask = offsets < n_elements",
            *body.lines,
        ]
        return kernel(f"{self.name}_kernel", arguments, f"{doc}, BLOCK elements a program.", lines)

    def _wrapper(self, doc: str) -> str:
        wrapper = self.wrapper
        lines = [f"{lb} = {wrapper.allocation(o)}" for lb, o in zip(self.labels, self.outputs, strict=True)]
        lines += [f"n_elements = {self.labels[0]}.numel()", f'block = CONFIG["{self.name}_BLOCK"]']
        arguments = [
            *wrapper.labels, *self.labels, "n_elements", *wrapper.runtime_numbers(), *wrapper.constants(),
            "BLOCK=block", "WIDE=n_elements >= 2**31 - block", f'num_warps=CONFIG["{self.name}_num_warps"]',
        ]  # fmt: skip
        lines += call(f"{self.name}_kernel[(triton.cdiv(n_elements, block),)]", arguments, indent=4)
        lines.append(f"return {', '.join(self.labels)}")
        return wrapper.function(f"{doc}, in one pass.", lines)


def _tuning(numel: int, *, short: bool) -> Tuning:
    """Start at 2048 elements a program, 1024 in short chains, fewer where that would leave multiprocessors idle."""
    block = (1024 if short else 2048) if numel >= 2048 * 1024 else 1024 if numel >= 2**18 else 256
    return Tuning(
        {"BLOCK": block, "num_warps": 8 if numel >= 2048 * 1024 else 4},
        {
            "parallel_mapping": {"num_warps": (8, 4, 16)},
            "tensor_tiling": {"BLOCK": (1024, 2048, 4096)},
        },
    )
