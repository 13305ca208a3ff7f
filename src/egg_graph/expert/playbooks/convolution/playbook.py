"""Convolutions with a fused pointwise epilogue, in one, two and three dimensions, plain and transposed."""

from collections.abc import Mapping
from math import gcd, prod

from egg_graph.expert.capture.graph import CapturedGraph
from egg_graph.expert.codegen.group import Group, KernelCode, Tuning
from egg_graph.expert.playbooks.convolution import tiles
from egg_graph.expert.playbooks.convolution.depthwise import (
    depthwise_tile,
    write_depthwise,
    write_depthwise_wrapper,
)
from egg_graph.expert.playbooks.convolution.implicit import implicit_tile, write_implicit, write_implicit_wrapper
from egg_graph.expert.playbooks.convolution.match import PLAIN, TRANSPOSED, Convolution, convolution_at, group_at
from egg_graph.expert.playbooks.convolution.spec import Spec
from egg_graph.expert.playbooks.convolution.tail import Tail, TailWriter
from egg_graph.expert.playbooks.playbook import LIBRARY, Alternative, Playbook, Remedy
from egg_graph.schema import Hardware, Knob, Precision

FEW_CHANNELS = 16
"""Below this many input channels of a group, channels and taps are one index of the sum."""
CHANNELS_WORTH_MOVING = 32
"""From this many input channels on, one pass that puts the channels innermost pays for itself in wide loads, if every
number is read for several taps; in three dimensions without strides, which have many, from `FEW_CHANNELS` on."""
TAPS_OF_A_LINE = 3
"""Up to this many taps, one dimension is read as fast where it lies: neighbouring rows are neighbours in memory."""


class ConvolutionPlaybook(Playbook):
    """`conv1d`, `conv2d`, `conv3d` and their transposes, then any pointwise chain over the result, in one kernel."""

    name = "convolution"
    operators = frozenset({"convolution", *PLAIN, *TRANSPOSED})
    guidance = (
        "Convolution: implicit GEMM, rows are output positions, columns output channels; the pointwise chain behind it "
        "belongs into its epilogue. With few input channels sum over channels and taps as one index: three channels "
        "times 27 taps fill 96 summands, and traffic is everything. With many, pack the filter with channels innermost "
        "and sum blocks of channels of one tap at a time; above about 32 channels a pass that moves channels innermost "
        "and rounds them to TF32 pays. A transposed convolution of stride s is one dense convolution for each residue "
        "of the output coordinate: multiply no zeros. Depthwise: no tensor cores, sum the taps directly."
    )
    variants = ("planes", "channels_last", "depthwise")
    alternatives = (
        Alternative(
            "channels_last", "memory_access", "channels innermost make the loads of a tap wide",
            ("implicit_gemm_channels_last", "round_operands_rna"),
        ),
        Alternative(
            "planes", "memory_access", "reading the input as it lies spares the pass that moves its channels",
        ),
        Alternative(LIBRARY, "operator_fusion", "the library's convolution with one Triton tail may be faster"),
    )  # fmt: skip
    complexity = 7

    def structures(self, graph: CapturedGraph, group: Group, target: Hardware | None = None) -> tuple[str, ...]:
        """Return the structures that differ for a group: depthwise alone, else two where channels are many."""
        convolution = _convolution_of(graph, group)
        if convolution.is_depthwise(graph):
            return ("depthwise",)
        return ("planes",) if convolution.channels(graph)[0] < FEW_CHANNELS else ("planes", "channels_last")

    def remedy(self, kind: str, group: str, variant: str, knobs: Mapping[str, Knob]) -> Remedy:
        """Choose what to change after a failure; a depthwise convolution has no plainer structure."""
        return super().remedy(kind, group, "" if variant == "depthwise" else variant, knobs)

    def match(self, graph: CapturedGraph, start: str, free: frozenset[str]) -> Group | None:
        """Group the convolution at `start` with the pointwise chain behind it."""
        convolution = convolution_at(graph, start)
        if convolution is None:
            return None
        return group_at(graph, self.name, start, free, _structure(graph, convolution, ""))

    def write(
        self, graph: CapturedGraph, group: Group, name: str, precision: Precision, target: Hardware | None = None
    ) -> KernelCode:
        """Write kernel, tail and wrapper. Operands of tensor cores are rounded to TF32 on NVIDIA GPUs."""
        convolution = _convolution_of(graph, group)
        structure = _structure(graph, convolution, group.variant)
        depthwise = structure == "depthwise"
        tile = depthwise_tile(convolution.rank) if depthwise else implicit_tile(convolution.rank)
        tail = TailWriter(graph, group, convolution, tile).write()
        spec = _spec(graph, group, name, precision, target, structure, tail)
        pieces = (write_depthwise(spec), write_depthwise_wrapper(spec))
        if not depthwise:
            pieces = (write_implicit(spec), write_implicit_wrapper(spec))
        channels_out = convolution.channels(graph)[1]
        config, space = Tuning(spec.config, tiles.space(spec.config, channels_out)).prefixed(name)
        return KernelCode(
            function=name,
            source="\n\n".join(pieces),
            tensors=(convolution.x, convolution.weight, *tail.tensors),
            returns=group.outputs,
            sizes=(*tail.sizes, *spec.varying.values()),
            config=config,
            space=space,
            helpers=tuple(sorted({*tail.helpers, *_helpers(spec, structure)})),
            summary=f"{tail.formula}: one convolution with its tail in the epilogue, {structure}",
        )


def _convolution_of(graph: CapturedGraph, group: Group) -> Convolution:
    return next(c for c in (convolution_at(graph, node) for node in group.nodes) if c is not None)


def _structure(graph: CapturedGraph, convolution: Convolution, wish: str) -> str:
    """Return the structure to write: the one wished for where it fits, else the one for this number of channels."""
    if convolution.is_depthwise(graph):
        return "depthwise"
    channels, _ = convolution.channels(graph)
    if channels < FEW_CHANNELS or wish == "planes":
        return "planes"
    return "channels_last" if wish == "channels_last" or _worth_moving(convolution, channels) else "planes"


def _worth_moving(convolution: Convolution, channels: int) -> bool:
    """Return whether the pass that moves the channels innermost pays, at full shape."""
    taps, strides = prod(taps[0] for taps in convolution.taps), prod(stride[0] for stride in convolution.stride)
    if taps <= (TAPS_OF_A_LINE if convolution.rank == 1 else 1) or (convolution.transposed and taps < strides):
        return False
    return channels >= CHANNELS_WORTH_MOVING or (convolution.rank == 3 and strides == 1)


def shape_of(graph: CapturedGraph, convolution: Convolution, structure: tiles.Structure) -> tiles.Shape:
    """Return what the knobs of an implicit GEMM depend on."""
    taps = [taps[0] for taps in convolution.taps]
    if convolution.transposed:
        steps = (s[0] // gcd(s[0], d[0]) for s, d in zip(convolution.stride, convolution.dilation, strict=True))
        taps = [-(-count // step) for count, step in zip(taps, steps, strict=True)]
    channels, channels_out = convolution.channels(graph)
    return tiles.Shape(
        structure, convolution.rank, convolution.transposed, channels, channels_out, channels * prod(taps)
    )


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
    flat = convolution.channels(graph)[0] < FEW_CHANNELS
    fp32 = node.dtype == "float32" and precision in ("ieee", "tf32")
    round_tf32 = fp32 and precision == "tf32" and (target is None or target.vendor == "nvidia")
    config: dict[str, Knob]
    if structure == "depthwise":
        config = tiles.depthwise_config(prod(node.shape[2:]), prod(taps[0] for taps in convolution.taps))
    else:
        read: tiles.Structure = "flat" if flat else "channels_last" if structure == "channels_last" else "planes"
        config = tiles.implicit_config(shape_of(graph, convolution, read), tensor_cores=not fp32 or round_tf32)
    return Spec(
        name, convolution, tail,
        "x.dtype" if output.dtype == node.dtype else f"torch.{output.dtype}",
        round_tf32, fp32 and not round_tf32, flat, structure == "channels_last", config,
    )  # fmt: skip


def _helpers(spec: Spec, structure: str) -> set[str]:
    if structure == "depthwise":
        return set()
    found = {"grouped_tile"} | ({"round_to_tf32"} if spec.round_tf32 else set())
    if spec.transposed:
        found.add("phase_numbers")
    if not spec.flat:
        found.add("pack_filter")
    return found | ({"channels_last"} if spec.channels_last else set())
