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
        return ("planes",) if convolution.channels(graph)[0] < tiles.FEW_CHANNELS else ("planes", "channels_last")

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
    """Return the structure to write: the one wished for where it fits, else the one that pays for this shape."""
    if convolution.is_depthwise(graph):
        return "depthwise"
    structure = tiles.structure_for(shape_of(graph, convolution), wish)
    return "planes" if structure == "flat" else structure


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
    round_tf32 = fp32 and precision == "tf32" and (target is None or target.vendor == "nvidia")
    config = (
        tiles.depthwise_config(prod(node.shape[2:]), shape.taps)
        if structure == "depthwise"
        else tiles.implicit_config(shape, read, tensor_cores=not fp32 or round_tf32)
    )
    return Spec(
        name, convolution, tail,
        "x.dtype" if output.dtype == node.dtype else f"torch.{output.dtype}",
        round_tf32, fp32 and not round_tf32, read == "flat", structure == "channels_last", config,
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
