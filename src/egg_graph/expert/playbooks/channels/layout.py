"""Moving channels innermost for a convolution that reads them so, with the elementwise chain ahead of it."""

from collections.abc import Iterator

from egg_graph.expert.capture.graph import CapturedGraph, Node
from egg_graph.expert.codegen.expressions import is_pointwise
from egg_graph.expert.codegen.fusion import Body, is_moving
from egg_graph.expert.codegen.group import Group, KernelCode, Tuning
from egg_graph.expert.codegen.indexing import Index, Run, Unfusable
from egg_graph.expert.codegen.launch import Wrapper, call, describe, kernel
from egg_graph.expert.playbooks.channels.statistics import BATCH_NORMS
from egg_graph.expert.playbooks.channels.tile import space_of_channels
from egg_graph.expert.playbooks.grow import grow
from egg_graph.expert.playbooks.knobs import power_of_two
from egg_graph.expert.playbooks.playbook import Playbook
from egg_graph.schema import TF32, Hardware, Precision

CHANNELS_LAST = "expert.channels_last.default"
"""The operator: the same tensor with its channels innermost in memory, rounded to TF32 where products are."""
TILE = Index("offsets", "mask", tile=True)
"""BLOCK_C channels times BLOCK_P pixels of one sample, pixels side by side."""
CHANNEL = Index("channel", "in_channels")
SAMPLE = Index("sample")
LARGEST_BLOCK = 64
HEAD = (
    "blocks_p = tl.cdiv(n_pixels, BLOCK_P)",
    "blocks = blocks_p * tl.cdiv(n_channels, BLOCK_C)",
    "sample = (tl.program_id(0) // blocks).to(tl.int64)",
    "part = tl.program_id(0) % blocks",
    "pixel = (part % blocks_p) * BLOCK_P + tl.arange(0, BLOCK_P)[None, :]",
    "channel = (part // blocks_p) * BLOCK_C + tl.arange(0, BLOCK_C)[:, None]",
    "in_channels = channel < n_channels",
    "mask = in_channels & (pixel < n_pixels)",
    "first = sample * n_channels * n_pixels",
    "offsets = first + channel * n_pixels + pixel",
    "rows = (part % blocks_p) * BLOCK_P + tl.arange(0, BLOCK_P)[:, None]",
    "cols = (part // blocks_p) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]",
    "turned = first + rows * n_channels + cols",
    "turned_mask = (rows < n_pixels) & (cols < n_channels)",
)
"""The lines that place a program's tile, as it lies and with channels innermost."""
NAMES = (
    "blocks_p",
    "sample",
    "part",
    "pixel",
    "channel",
    "in_channels",
    "rows",
    "cols",
    "turned",
    "turned_mask",
    "n_pixels",
    "n_channels",
)


class LayoutPlaybook(Playbook):
    """A tensor with its channels innermost, for a convolution behind it, and the elementwise chain that makes it."""

    name = "layout"
    operators = BATCH_NORMS
    guidance = (
        "Between two layers of a vision network an activation is read and written once: normalizing, activation and "
        "residual run in the pass that moves the channels innermost and rounds them to TF32 for the next convolution, "
        "not in a pass before it. Load a tile of 64 channels times 64 pixels as it lies, compute, transpose in "
        "registers, store rows of channels: both sides move whole lines of memory. What another operator needs with "
        "its pixels innermost, a residual say, is stored beside it by the same program."
    )
    complexity = 3
    shared_memory_knobs = ("BLOCK",)
    register_knobs = ("BLOCK",)

    def match(self, graph: CapturedGraph, start: str, free: frozenset[str]) -> Group | None:
        """Group the move at `start` with the elementwise chain ahead of it that nothing else needs."""
        node = graph[start]
        if node.op != CHANNELS_LAST:
            return None
        ahead = set(_chain_ahead(graph, node, free))
        group = grow(graph, [start], free, ahead.__contains__, lambda nodes: LayoutWriter(graph, nodes, "probe"))
        return None if group is None else Group.of(graph, self.name, set(group))

    def write(
        self, graph: CapturedGraph, group: Group, name: str, precision: Precision, target: Hardware | None = None
    ) -> KernelCode:
        """Write kernel and wrapper. Arithmetic is in fp32."""
        nvidia = target is None or target.vendor == "nvidia"
        return LayoutWriter(graph, frozenset(group.nodes), name, precision in TF32 and nvidia).code()


def _chain_ahead(graph: CapturedGraph, node: Node, free: frozenset[str]) -> Iterator[str]:
    """Yield the elementwise operators of the same size from which a node follows, and the views of what they read."""
    pending = list(node.inputs)
    while pending:
        name = pending.pop()
        if name not in free:
            continue
        other = graph[name]
        if (is_pointwise(other) and other.shapes == node.shapes) or is_moving(other, graph):
            yield name
            pending.extend(other.inputs)


class _TileBody(Body):
    """Elementwise work on a tile of channels and pixels."""

    def __init__(self, graph: CapturedGraph, nodes: frozenset[str], like: Node) -> None:
        super().__init__(graph, nodes)
        self.space = space_of_channels(like)
        self.reserve(NAMES)

    def project_special(self, pattern: tuple[Run, ...], index: Index) -> Index | None:
        """Name what varies by channel or by sample alone."""
        if index != TILE:
            return None
        of = self.space.pattern
        return {of(False, True, False): CHANNEL, of(True, False, False): SAMPLE}.get(pattern)


class LayoutWriter:
    """Writes kernel and wrapper.

    Raises:
        Unfusable: if anything but the tensor itself, in both orders, is needed outside.
    """

    def __init__(self, graph: CapturedGraph, nodes: frozenset[str], name: str, rounds: bool = False) -> None:
        self.graph, self.name, self.rounds = graph, name, rounds
        self.move = next(graph[n] for n in graph.ordered(nodes) if graph[n].op == CHANNELS_LAST)
        source = self.move.inputs[0]
        self.outputs = graph.writes(nodes)
        if not set(self.outputs) <= {self.move.name, source}:
            raise Unfusable("more than one tensor is needed outside")
        body = self.body = _TileBody(graph, nodes, self.move)
        value = body.value(source, TILE)
        self.labels = {output: body.out(place, len(self.outputs)) for place, output in enumerate(self.outputs)}
        if source in self.labels:
            body.store(self.labels[source], value, TILE)
        if rounds:
            body.helpers.add("round_to_tf32")
            value = f"round_to_tf32({value})"
        body.emit(f"tl.store({self.labels[self.move.name]}_ptr + turned, tl.trans({value}), mask=turned_mask)")
        self.wrapper = Wrapper(graph, body, name)
        self.doc = describe(graph, graph.ordered(nodes - {self.move.name}) or (source,), (source,))

    def code(self) -> KernelCode:
        """Write the source."""
        channels = self.move.size(1)[0]
        blocks = {"BLOCK_C": power_of_two(channels, 16, LARGEST_BLOCK), "BLOCK_P": LARGEST_BLOCK, "num_warps": 8}
        tuning = Tuning(dict(blocks), {"parallel_mapping": {"num_warps": (8, 4)}})
        summary = f"channels moved innermost: {self.doc}"
        return self.wrapper.code(self.outputs, (self._kernel(), self._wrapper()), tuning, summary)

    def _kernel(self) -> str:
        body = self.body
        arguments = [
            *(f"{body.label(root)}_ptr" for root in body.roots), *(f"{label}_ptr" for label in self.labels.values()),
            "n_channels", "n_pixels", *body.numbers.values(),
            *(f"{n}: tl.constexpr" for n in [*body.sizes.values(), "BLOCK_C", "BLOCK_P"]),
        ]  # fmt: skip
        doc = f"{self.doc}, stored with channels innermost."
        return kernel(f"{self.name}_kernel", arguments, doc, [*HEAD, *body.lines])

    def _wrapper(self) -> str:
        wrapper, name = self.wrapper, self.name
        samples, channels, pixels = (
            wrapper.size(v) for v in (self.body.space.outer, self.body.space.reduced, self.body.space.inner)
        )
        lines = []
        for output, label in self.labels.items():
            last = ", memory_format=torch.channels_last)" if output == self.move.name else ")"
            lines.append(f"{label} = {wrapper.allocation(output).removesuffix(')')}{last}")
        block_c, block_p = (f'CONFIG["{name}_BLOCK_{axis}"]' for axis in "CP")
        lines += [
            f"n_channels, n_pixels = {channels}, {pixels}",
            f"blocks = triton.cdiv(n_channels, {block_c}) * triton.cdiv(n_pixels, {block_p})",
        ]
        arguments = [
            *wrapper.labels, *self.labels.values(), "n_channels", "n_pixels", *wrapper.runtime_numbers(),
            *wrapper.constants(), f"BLOCK_C={block_c}", f"BLOCK_P={block_p}", f'num_warps=CONFIG["{name}_num_warps"]',
        ]  # fmt: skip
        lines += call(f"{name}_kernel[({samples} * blocks,)]", arguments, indent=4)
        lines.append(f"return {', '.join(self.labels.values())}")
        return wrapper.function(f"{self.doc}, with channels innermost.", lines)
