"""Convolutions with a fused epilogue, in one, two and three dimensions, plain and transposed.

The epilogue is pointwise, or reduces over the channels: minima, sums, softmax and logsumexp of all channels of a pixel.
"""

from collections.abc import Mapping
from math import gcd, prod

from egg_graph.expert.capture.graph import CapturedGraph
from egg_graph.expert.codegen.group import Group, KernelCode, Tuning
from egg_graph.expert.codegen.joining import may_be_a_slice
from egg_graph.expert.playbooks.channels.layout import CHANNELS_LAST
from egg_graph.expert.playbooks.convolution import tiles
from egg_graph.expert.playbooks.convolution.depthwise import (
    depthwise_tile,
    write_depthwise,
    write_depthwise_wrapper,
)
from egg_graph.expert.playbooks.convolution.implicit import implicit_tile, write_implicit, write_implicit_wrapper
from egg_graph.expert.playbooks.convolution.match import (
    ADDRESSABLE,
    PLAIN,
    TRANSPOSED,
    Convolution,
    columns_of_phases,
    convolution_at,
    group_at,
    has_phases,
    phases_can_be_joined,
    reach_of,
    reduces_pixels,
)
from egg_graph.expert.playbooks.convolution.padded import (
    padded_config,
    padded_space,
    padded_tile,
    padded_width,
    write_padded,
    write_padded_wrapper,
)
from egg_graph.expert.playbooks.convolution.phases import (
    phases_config,
    phases_space,
    work_overhead,
    write_phases,
    write_phases_wrapper,
)
from egg_graph.expert.playbooks.convolution.pixel_parts import joining_helper
from egg_graph.expert.playbooks.convolution.pooled_phases import (
    pooled_config,
    pooled_space,
    write_pooled_phases,
    write_pooled_phases_wrapper,
)
from egg_graph.expert.playbooks.convolution.spec import Spec
from egg_graph.expert.playbooks.convolution.tail import Tail, TailWriter
from egg_graph.expert.playbooks.convolution.window import anchor_of
from egg_graph.expert.playbooks.knobs import multiprocessors
from egg_graph.expert.playbooks.playbook import LIBRARY, Alternative, Playbook, Remedy
from egg_graph.expert.playbooks.survey import survey_of
from egg_graph.schema import TF32, ConfigSpace, Hardware, Knob, Precision

CHANNELS_WORTH_PADDING = 16
"""Up to this many input channels of a group, a padded copy with its channels innermost costs less than the tests and
narrow loads that it spares, if every number is read for several taps."""


CHANNELS_WORTH_JOINING = 16
"""Up to this many input channels of a group `MOST_OVERHEAD` is the limit for phases as columns of one product."""
MOST_CHANNELS_JOINED = 64
"""Beyond this many channels into or out of a group, a program computes one phase."""
MOST_OVERHEAD = 4.0
"""With few channels, products computed for each that counts (H200: 8 were slower on level 1/77 of KernelBench)."""
LITTLE_OVERHEAD = 1.75
"""The same with more channels (H200: 1.0 and 1.7 were faster on levels 2/5, 2/34, 2/78 of KernelBench, 1.8 slower on
2/2)."""
COMPARED = "all phases as one product against one phase a program, on KernelBench's levels 1 and 2 and an H200"
OVERHEAD_FOR_GAPS = 8.0
"""The same where every other structure stores lines with gaps (H200: 7 were faster on level 1/81)."""
INTERLEAVED = 2
"""Stride along the last dimension up to which every other structure stores whole lines."""
MANY = 8
"""Convolutions from which on their number of input channels is an argument and no constant of the kernels: a dense
network has a hundred that differ in nothing else, and each would be compiled."""


class ConvolutionPlaybook(Playbook):
    """`conv1d`, `conv2d`, `conv3d` and their transposes, then any pointwise chain and reductions of it, in one kernel.

    Over up to 128 channels in every structure but `depthwise`; over pooling windows and over all pixels in `padded`,
    and in `pooled_phases`, where the windows are as wide as the stride of a transposed convolution.
    """

    name = "convolution"
    operators = frozenset({"convolution", *PLAIN, *TRANSPOSED})
    guidance = (
        "Convolution: implicit GEMM, rows are output positions, columns output channels. The pointwise chain behind it "
        "belongs into its epilogue, and a reduction over up to 128 channels. With few input channels sum over channels "
        "and taps as one index, over a padded, rounded copy with channels innermost: loads are wide, without bounds; "
        "walk a pooling's windows or the depth there; leave one sum a tile of an average over all pixels. With many, "
        "pack the filter with channels innermost; above 32 a pass that moves them pays. Transposed, stride s: one "
        "dense convolution a residue; with few channels all residues are columns of one product; before maximum "
        "pooling by s write their maximum alone. Depthwise: no tensor cores."
    )
    variants = ("planes", "padded", "channels_last", "depthwise", "phases", "pooled_phases")
    alternatives = (
        Alternative(
            "padded", "memory_access", "a padded copy with few channels innermost spares every test and narrow load",
            ("implicit_gemm_channels_last", "round_operands_rna"),
        ),
        Alternative(
            "channels_last", "memory_access", "channels innermost make the loads of a tap wide",
            ("implicit_gemm_channels_last", "round_operands_rna"),
        ),
        Alternative(
            "phases", "memory_access", "all phases of a place as columns of one product read its inputs once",
            ("all_phases_of_a_transposed_convolution_in_one_product", "round_operands_rna"),
        ),
        Alternative(
            "planes", "memory_access", "reading the input as it lies spares the pass that moves its channels",
        ),
        Alternative(LIBRARY, "operator_fusion", "the library's convolution with one Triton tail may be faster"),
    )  # fmt: skip
    complexity = 7

    def remedy(self, kind: str, group: str, variant: str, knobs: Mapping[str, Knob]) -> Remedy:
        """Choose what to change after a failure; two structures have no plainer one."""
        return super().remedy(kind, group, "" if variant in ("depthwise", "pooled_phases") else variant, knobs)

    def match(self, graph: CapturedGraph, start: str, free: frozenset[str]) -> Group | None:
        """Group the convolution at `start` with the pointwise chain behind it."""
        convolution = convolution_at(graph, start)
        if convolution is None:
            return None
        if phases_can_be_joined(graph, convolution):
            group = group_at(graph, self.name, start, free, "pooled_phases", reduces=True)
            if _reduces(graph, convolution, group):
                return group
        structure = structure_of(graph, convolution, "")
        moments = leaves_moments(graph, convolution)
        return group_at(graph, self.name, start, free, structure, reduces=structure == "padded", leaves_moments=moments)

    def structures(self, graph: CapturedGraph, group: Group, target: Hardware | None = None) -> tuple[str, ...]:
        """Return the structures that `write` does not replace by another."""
        convolution = _convolution_of(graph, group)
        if _reduces(graph, convolution, group):
            return (_structure_of(graph, convolution, group),)
        return tuple(v for v in self.variants if structure_of(graph, convolution, v) == v)

    def measured(self, graph: CapturedGraph, group: Group, precision: Precision, target: Hardware) -> str:
        """Return the survey: the rules of `tiles.structure_for` are fitted to it, and no library came near them.

        Between `FEWEST_MOVED` and `FEW_CHANNELS` channels it read the input of a transposed convolution one way alone.
        It had no structure with phases as columns, which was compared with them later.
        """
        convolution = _convolution_of(graph, group)
        shape, structure = shape_of(graph, convolution), _structure_of(graph, convolution, group)
        if structure == "pooled_phases":
            return ""
        if structure != "phases" and shape.transposed and tiles.FEWEST_MOVED <= shape.channels_in < tiles.FEW_CHANNELS:
            return ""
        survey = survey_of(graph, group, precision, target, TF32)
        return COMPARED if survey and structure == "phases" else survey

    def write(
        self, graph: CapturedGraph, group: Group, name: str, precision: Precision, target: Hardware | None = None
    ) -> KernelCode:
        """Write kernel, tail and wrapper. Operands of tensor cores are rounded to TF32 on NVIDIA GPUs.

        Those that a fold summed are not: they go in two parts each (see `Node.of_sums`).
        """
        convolution = _convolution_of(graph, group)
        structure = _structure_of(graph, convolution, group)
        tile = _TILES.get(structure, implicit_tile)(convolution.rank)
        tail = TailWriter(graph, group, convolution, tile).write()
        spec = _spec(graph, group, name, precision, target, structure, tail)
        write_kernel, write_wrapper = _WRITERS.get(structure, (write_implicit, write_implicit_wrapper))
        found = _space(graph, spec, structure)
        config, space = Tuning(spec.config, found).without(spec.fixed).prefixed(name)
        return KernelCode(
            function=name,
            source="\n\n".join((write_kernel(spec), write_wrapper(spec))),
            tensors=(convolution.x, convolution.weight, *tail.tensors),
            returns=group.outputs,
            sizes=(*tail.sizes, *spec.varying.values()),
            config=config,
            space=space,
            helpers=tuple(sorted({*tail.helpers, *_helpers(spec, structure)})),
            keeps=spec.keeps,
            into=spec.into,
            summary=f"{tail.formula}: one convolution with its tail in the epilogue, {structure}",
        )


_TILES = {"depthwise": depthwise_tile, "padded": padded_tile, "phases": padded_tile, "pooled_phases": padded_tile}
_WRITERS = {
    "depthwise": (write_depthwise, write_depthwise_wrapper),
    "padded": (write_padded, write_padded_wrapper),
    "phases": (write_phases, write_phases_wrapper),
    "pooled_phases": (write_pooled_phases, write_pooled_phases_wrapper),
}
"""The structures that are no implicit GEMM over the input as it lies or with its channels moved."""


def _convolution_of(graph: CapturedGraph, group: Group) -> Convolution:
    return next(c for c in (convolution_at(graph, node) for node in group.nodes) if c is not None)


def _reduces(graph: CapturedGraph, convolution: Convolution, group: Group) -> bool:
    """Return whether a group reduces over windows of pixels, or over all of them: one structure can do that."""
    anchor = anchor_of(graph, convolution.node, group.nodes)
    ends = [graph[name] for name in group.outputs]
    return anchor is not convolution.node or any(reduces_pixels(anchor, n, graph[n.inputs[0]]) for n in ends)


def _structure_of(graph: CapturedGraph, convolution: Convolution, group: Group) -> str:
    """Return the structure to write for a group: the only one where it reduces pixels, else that of its variant."""
    if not _reduces(graph, convolution, group):
        return structure_of(graph, convolution, group.variant)
    return "pooled_phases" if convolution.transposed else "padded"


def _space(graph: CapturedGraph, spec: Spec, structure: str) -> ConfigSpace:
    """Return what each tuning stage may try for the knobs."""
    if structure == "padded":
        return padded_space(spec.config, spec.tail)
    if structure == "phases":
        return phases_space(spec.config)
    if structure == "pooled_phases":
        return pooled_space(columns_of_phases(graph, spec.convolution))
    return tiles.space(spec.config, spec.convolution.channels(graph)[1])


def structure_of(graph: CapturedGraph, convolution: Convolution, wish: str) -> str:
    """Return the structure to write: the one wished for where it fits, else the one that pays for this shape."""
    wish = "" if wish == "pooled_phases" else wish
    if convolution.is_depthwise(graph):
        return "depthwise"
    if has_phases(graph, convolution) and (wish == "phases" or (not wish and _phases_pay(graph, convolution))):
        return "phases"
    wish = "" if wish == "phases" else wish
    if graph[convolution.x].op == CHANNELS_LAST:
        return "channels_last"
    if _can_be_padded(graph, convolution) and (wish == "padded" or (not wish and _has_bands(convolution))):
        return "padded"
    structure = tiles.structure_for(shape_of(graph, convolution), "" if wish == "padded" else wish)
    return "planes" if structure == "flat" else structure


def leaves_moments(graph: CapturedGraph, convolution: Convolution) -> bool:
    """Return whether a convolution should leave the moments of its tiles for a norm behind it."""
    structure = structure_of(graph, convolution, "")
    if structure in ("depthwise", "padded", "phases"):
        return structure != "depthwise"
    return tiles.leaves_moments(shape_of(graph, convolution))


def shape_of(graph: CapturedGraph, convolution: Convolution) -> tiles.Shape:
    """Return what the structure and the knobs of an implicit GEMM depend on."""
    channels, channels_out = convolution.channels(graph)
    taps = [taps[0] for taps in convolution.taps]
    strides = [stride[0] for stride in convolution.stride]
    steps = [1] * convolution.rank
    if convolution.transposed:
        steps = [s // gcd(s, d[0]) for s, d in zip(strides, convolution.dilation, strict=True)]
    phase_taps = prod(-(-count // step) for count, step in zip(taps, steps, strict=True))
    return tiles.Shape(
        convolution.rank, convolution.transposed, channels, channels_out, prod(taps), phase_taps, prod(strides)
    )


def _can_be_padded(graph: CapturedGraph, convolution: Convolution) -> bool:
    """Return whether a padded copy pays: few channels, several taps; and whether a sample of it can be addressed."""
    channels, _ = convolution.channels(graph)
    taps = prod(sizes[0] for sizes in convolution.taps)
    if convolution.transposed or channels > CHANNELS_WORTH_PADDING or taps == 1:
        return False
    sizes = graph[convolution.x].shape[2:]
    pixels = prod(size + 2 * padding[0] for size, padding in zip(sizes, convolution.padding, strict=True))
    return pixels * padded_width(channels) < ADDRESSABLE


def _phases_pay(graph: CapturedGraph, convolution: Convolution) -> bool:
    """Return whether all phases as columns of one product pay.

    The other structures store lines with gaps, or of odd length number by number (levels 1/81 and 1/73 of KernelBench).
    """
    channels, stride = convolution.channels(graph), convolution.stride[-1][0]
    if max(channels) > MOST_CHANNELS_JOINED:
        return False
    odd = convolution.rank == 3 and convolution.node.shape[-1] % 2 == 1
    most = MOST_OVERHEAD if channels[0] <= CHANNELS_WORTH_JOINING or odd else LITTLE_OVERHEAD
    return work_overhead(convolution) <= (OVERHEAD_FOR_GAPS if stride > INTERLEAVED else most)


def _has_bands(convolution: Convolution) -> bool:
    """Return whether a window has several numbers side by side: a run of outputs shares no input otherwise."""
    return convolution.taps[-1][0] > 1


def _spec(
    graph: CapturedGraph,
    group: Group,
    name: str,
    precision: Precision,
    target: Hardware | None,
    structure: str,
    tail: Tail,
) -> Spec:
    convolution = _convolution_of(graph, group)
    node, output = convolution.node, graph[group.outputs[0]]
    shape = shape_of(graph, convolution)
    read = tiles.structure_for(shape, structure)
    fp32 = node.dtype == "float32" and precision in ("ieee", "tf32")
    tensor_cores = fp32 and precision == "tf32" and (target is None or target.vendor == "nvidia")
    round_tf32, tf32x3 = tensor_cores and not node.of_sums, tensor_cores and node.of_sums
    config: dict[str, Knob]
    if structure == "depthwise":
        config = tiles.depthwise_config(prod(node.shape[2:]), shape.taps)
    elif structure == "padded":
        config = padded_config(shape.channels_out, tail)
    elif structure == "phases":
        strides = tuple(stride[0] for stride in convolution.stride)
        summands = prod(reach_of(convolution)) * padded_width(shape.channels_in)
        config = phases_config(strides, shape.channels_out, summands, tail, all_digits=fp32 and not round_tf32)
    elif structure == "pooled_phases":
        config = pooled_config(columns_of_phases(graph, convolution), all_digits=fp32 and not round_tf32)
    else:
        config = tiles.implicit_config(shape, read, all_digits=fp32 and not round_tf32, tf32x3=tf32x3)
        positions, groups = node.shape[0] * prod(node.shape[2:]), convolution.groups[0]
        config = tiles.filling(config, positions, shape.channels_out, groups, multiprocessors(target))
        config = tiles.holding(config, shape) if tail.holds_channels else config
    return Spec(
        name, convolution, tail,
        "x.dtype" if output.dtype == node.dtype else f"torch.{output.dtype}",
        round_tf32, tf32x3, fp32 and not tensor_cores, read == "flat", structure == "channels_last", config,
        structure != "depthwise" and (structure in _TILES or read != "flat")
        and graph.is_parameter(convolution.weight),
        structure not in _TILES and read in ("planes", "channels_last") and shape.channels_in % 16 == 0
        and _has_many(graph),
        structure != "depthwise" and not tail.reshapes and not tail.parts and may_be_a_slice(graph, output.name),
        graph[convolution.x].op == CHANNELS_LAST,
    )  # fmt: skip


def _has_many(graph: CapturedGraph) -> bool:
    """Return whether a network has so many convolutions that each compiled kernel should serve several."""
    return sum(node.base in PLAIN.keys() | TRANSPOSED.keys() for node in graph.nodes) >= MANY


def _helpers(spec: Spec, structure: str) -> set[str]:
    if structure == "depthwise":
        return set()
    kept = {"kept_copy"} if spec.keeps else set()
    if structure in _TILES:
        joins = {joining_helper(spec)} if spec.tail.pixels else set()
        packs = {"pack_band"} if structure == "padded" else {"pack_phases", "column_halves", "reached_inputs"}
        packs |= {"phases_by_program"} if structure == "phases" else set()
        return {"padded_channels_last"} | packs | kept | joins
    found = kept | {"grouped_tile", "column_halves"} | ({"round_to_tf32"} if spec.round_tf32 else set())
    if spec.transposed:
        found.add("phase_numbers")
    if not spec.flat:
        found.add("pack_filter")
    return found | ({"channels_last"} if spec.channels_last and not spec.laid_out else set())
