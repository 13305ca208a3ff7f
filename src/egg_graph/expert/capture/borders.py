"""The borders of a convolution: which input rows the ends of one dimension keep some taps of the filter from reaching.

Summed over the outputs, tap t of a filter meets every row of the input but some at both ends: the rows whose product
with the tap falls outside the output (a transposed convolution), or that no output reads through it (a plain one).
"""

from dataclasses import dataclass

from pydantic import JsonValue

from egg_graph.expert.capture.graph import CapturedGraph, Node

PLAIN = {"aten.conv1d.default": 1, "aten.conv2d.default": 2, "aten.conv3d.default": 3}
TRANSPOSED = {"aten.conv_transpose1d.default": 1, "aten.conv_transpose2d.input": 2, "aten.conv_transpose3d.input": 3}
DEFAULTS = {"stride": 1, "padding": 0, "dilation": 1, "output_padding": 0}
MOST_STRIDE = 8
"""The largest stride for which generated code finds the number of outputs (see `codegen.sizes`)."""


@dataclass(frozen=True)
class Convolution:
    """A convolution without groups in fp32; the numbers by spatial dimension, equal in all captures."""

    node: Node
    rank: int
    """Number of spatial dimensions."""
    transposed: bool
    bias: str | None
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    output_padding: tuple[int, ...]

    def numbers(self, dims: tuple[int, ...]) -> tuple[JsonValue, ...]:
        """Return the arguments behind x, weight and bias of a convolution over some of the spatial dimensions."""

        def of(numbers: tuple[int, ...]) -> JsonValue:
            return [numbers[dim] for dim in dims]

        ends = (of(self.output_padding), 1, of(self.dilation)) if self.transposed else (of(self.dilation), 1)
        return (of(self.stride), of(self.padding), *ends)


@dataclass(frozen=True)
class Border:
    """One end of one dimension: `reach[i]` taps of the filter miss the row that is i rows away from the end.

    They are the first taps of the filter where `leading`, else its last.
    """

    reach: tuple[int, ...]
    leading: bool


def convolution_of(graph: CapturedGraph, node: Node) -> Convolution | None:
    """Read a convolution; None where it is none, has groups, or its numbers differ between the captures."""
    transposed = node.op in TRANSPOSED
    rank = (TRANSPOSED if transposed else PLAIN).get(node.op)
    if rank is None or node.kwargs or node.dtype != "float32" or node.rank != rank + 2:
        return None
    names = ["x", "weight", "bias", "stride", "padding"]
    names += ["output_padding", "groups", "dilation"] if transposed else ["dilation", "groups"]
    given = dict(zip(names, node.args, strict=False))
    bias = graph[node.inputs[2]].name if given.get("bias") is not None else None
    numbers = [_numbers(given.get(n), rank, default) for n, default in DEFAULTS.items()]
    alike = all(graph[name].dtype == "float32" and graph[name].shapes for name in node.inputs)
    if not alike or given.get("groups", 1) != 1 or any(n is None for n in numbers):
        return None
    stride, padding, dilation, output_padding = (n for n in numbers if n is not None)
    return Convolution(node, rank, transposed, bias, stride, padding, dilation, output_padding)


def _numbers(raw: JsonValue, rank: int, default: int) -> tuple[int, ...] | None:
    """Return one number a dimension."""
    values = raw if isinstance(raw, list) else [raw]
    whole = tuple(default if v is None else v for v in values if v is None or isinstance(v, int))
    if len(whole) != len(values):
        return None
    return whole * rank if len(whole) == 1 else whole


def borders_of(graph: CapturedGraph, convolution: Convolution, dim: int) -> tuple[Border, Border] | None:
    """Return the borders at the begin and the end of a spatial dimension.

    None where a strided plain convolution skips rows, where the captures disagree or do not tell how many outputs there
    are, or where the input is so short that both ends meet.
    """
    if not convolution.transposed and convolution.stride[dim] != 1:
        return None
    x, weight = (graph[name] for name in convolution.node.inputs[:2])
    rows, outputs, taps = (tensor.size(dim + 2) for tensor in (x, convolution.node, weight))
    if not _is_told(convolution, dim, rows, outputs, taps):
        return None
    missed = [_missed(convolution, dim, *sizes) for sizes in zip(rows, outputs, taps, strict=True)]
    if any(each != missed[0] for each in missed) or missed[0] is None:
        return None
    begin, end = missed[0]
    return Border(begin, convolution.transposed), Border(end, not convolution.transposed)


def _is_told(
    convolution: Convolution, dim: int, rows: tuple[int, ...], outputs: tuple[int, ...], taps: tuple[int, ...]
) -> bool:
    """Return whether generated code can write the number of outputs as an expression of rows and taps."""
    stride, dilation = convolution.stride[dim], convolution.dilation[dim]
    if len(set(outputs)) == 1:
        return True
    if len(set(taps)) == 1:  # outputs = rows * stride + a constant
        return stride == 1 or outputs[0] == rows[0] * stride or (len(rows) >= 3 and stride <= MOST_STRIDE)
    return convolution.transposed and stride == dilation == 1 and len(rows) >= 4


def _missed(
    convolution: Convolution, dim: int, rows: int, outputs: int, taps: int
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Count the taps that miss each row, from the begin and from the end; None where some tap reaches no row."""
    s, p, d = convolution.stride[dim], convolution.padding[dim], convolution.dilation[dim]
    begins, ends = [], []
    for tap in range(taps):
        if convolution.transposed:  # row i lands on output i s + tap d - p
            first, last = -((tap * d - p) // s), (outputs - 1 + p - tap * d) // s
        else:  # output o reads row o + tap d - p
            first, last = tap * d - p, outputs - 1 + tap * d - p
        begins.append(max(0, first))
        ends.append(max(0, rows - 1 - last))
        if begins[-1] + ends[-1] >= rows:
            return None
    begin, end = (tuple(sum(n > row for n in counts) for row in range(max(counts))) for counts in (begins, ends))
    return begin, end
