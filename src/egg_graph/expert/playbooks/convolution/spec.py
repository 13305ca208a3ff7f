"""What the templates of a convolution share: its numbers, as kernel arguments and as lines of the wrapper."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod

from egg_graph.expert.codegen.launch import call
from egg_graph.expert.playbooks.convolution.match import Convolution
from egg_graph.expert.playbooks.convolution.tail import Tail
from egg_graph.schema import Knob


@dataclass(frozen=True)
class Spec:
    """One convolution as the templates see it.

    Along dimension d a kernel knows the input's size IN_d, the output's OUT_d, stride S_d, padding P_d, dilation D_d
    and number of taps T_d; of a transposed one also G_d, the greatest common divisor of stride and dilation, and
    INVERSE_d, the inverse of D_d / G_d modulo S_d / G_d.
    """

    name: str
    convolution: Convolution
    tail: Tail
    output_dtype: str
    """Text of the output's dtype in the wrapper."""
    round_tf32: bool
    """Whether fp32 operands go to tensor cores and must be rounded first, because the cores truncate."""
    tf32x3: bool
    """Whether tensor cores get fp32 operands in two parts each: three products, with the digits of fp32."""
    ieee: bool
    """Whether fp32 operands are multiplied in fp32."""
    flat: bool
    """Whether channels and taps are one index of the sum."""
    channels_last: bool
    """Whether the kernel reads the input with its channels innermost."""
    config: dict[str, Knob]
    """Knobs by names without the group's prefix."""
    keeps: bool = False
    """Whether the packed filter is kept from call to call: the weight is a parameter, and is packed."""
    any_channels: bool = False
    """Whether one compiled kernel serves every number of input channels that is a multiple of 16."""
    into: bool = False
    """Whether the output may be a slice of the channels of a larger tensor."""
    laid_out: bool = False
    """Whether the input comes with its channels innermost, and rounded where products are in TF32."""

    @property
    def rank(self) -> int:
        """Number of spatial dimensions."""
        return self.convolution.rank

    @property
    def transposed(self) -> bool:
        return self.convolution.transposed

    @property
    def phases(self) -> int:
        """Number of residues of a transposed convolution's output, where its stride is the same in every capture."""
        return prod(stride[0] for stride in self.convolution.stride)

    def knob(self, knob: str) -> str:
        """Return the text that reads a knob, or what stands for it."""
        return "block_n" if knob in self.fixed else f'CONFIG["{self.name}_{knob}"]'

    @property
    def fixed(self) -> tuple[str, ...]:
        """Those of `config` that are no knobs: a tile has all channels where the tail reduces over them."""
        return ("BLOCK_N",) if self.tail.holds_channels else ()

    def numbered_channels(self, text: str) -> list[str]:
        """Write the wrapper's line that tells the channels of a group, and how many of them a tile has to hold."""
        held = ["block_n = max(16, triton.next_power_of_2(N))"] if self.tail.holds_channels else []
        return [f"N = {text}", *held]

    @property
    def precision(self) -> str:
        """The precision argument of a `tl.dot` call, with its comma."""
        if self.ieee:
            return ', input_precision="ieee"'
        if self.tf32x3:
            return ', input_precision="tf32x3"'
        return ', input_precision="tf32"' if self.round_tf32 else ""

    def rounded(self, text: str) -> str:
        """Round an operand to TF32 where the arithmetic asks for it."""
        return f"round_to_tf32({text})" if self.round_tf32 else text

    def lines(self, text: str) -> list[str]:
        """Write a text for every spatial dimension, with its number in place of `#`."""
        return [text.replace("#", str(d)) for d in range(self.rank)]

    def each(self, text: str, separator: str = ", ") -> str:
        """Join `lines` on one line."""
        return separator.join(self.lines(text))

    @property
    def geometry(self) -> list[str]:
        """The kernel's constexpr parameters that tell the convolution's geometry."""
        names = ["IN_#", "OUT_#", "S_#", "P_#", "D_#", "T_#"] + (["G_#", "INVERSE_#"] if self.transposed else [])
        return [name for text in names for name in self.lines(text)]

    @property
    def geometry_arguments(self) -> list[str]:
        """What the wrapper passes for `geometry`."""
        texts = ["IN_#=x_shape[@]", "OUT_#=out_#", "S_#=s_#", "P_#=p_#", "D_#=d_#", "T_#=weight_shape[@]"]
        if self.transposed:
            texts += ["G_#=g_#", "INVERSE_#=inverse_#"]
        return [text.replace("#", str(d)).replace("@", str(d + 2)) for text in texts for d in range(self.rank)]

    @cached_property
    def varying(self) -> dict[str, tuple[int, ...]]:
        """Numbers of the convolution that differ between captures, by the wrapper's parameter for each."""
        return {name: values for name, values in self._numbers() if len(set(values)) > 1}

    def _numbers(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        conv = self.convolution
        for d in range(self.rank):
            yield f"s_{d}", conv.stride[d]
            yield f"p_{d}", conv.padding[d]
            yield f"d_{d}", conv.dilation[d]
            if self.transposed:
                yield f"more_{d}", conv.output_padding[d]
        if self.transposed:
            yield "groups", conv.groups

    def wrapper_head(self) -> list[str]:
        """Write docstring, operands and geometry."""
        last = "memory_format=torch.channels_last" if self.laid_out else ""
        constants = [f"{name} = {values[0]}" for name, values in self._numbers() if name not in self.varying]
        size = "out_# = (x.shape[@] + 2 * p_# - d_# * (weight.shape[@] - 1) - 1) // s_# + 1"
        if self.transposed:
            size = "out_# = (x.shape[@] - 1) * s_# - 2 * p_# + d_# * (weight.shape[@] - 1) + more_# + 1"
        return [
            f'"""{self.tail.formula}."""',
            *constants,
            f"x, weight, x_shape, weight_shape = x.contiguous({last}), weight.contiguous(), x.shape, weight.shape",
            *[f"{label} = {label}.contiguous()" for label in self.tail.labels],
            *(size.replace("#", str(d)).replace("@", str(d + 2)) for d in range(self.rank)),
        ]

    @property
    def gap(self) -> list[str]:
        """The constexpr parameter that tells how many elements lie between two samples of the output."""
        return ["GAP"] if self.into else []

    @property
    def target(self) -> str:
        """Where a tile is stored, from `out_offsets` within a dense output."""
        return "out_ptr + sample * GAP + out_offsets" if self.into else "out_ptr + out_offsets"

    def allocation(self) -> list[str]:
        """Write the lines that allocate the output."""
        line = f"out = torch.empty(shape, device=x.device, dtype={self.output_dtype})"
        return ["if out is None:", f"    {line}"] if self.into else [line]

    @property
    def gap_argument(self) -> list[str]:
        return ["GAP=out.stride(0) - out[0].numel()"] if self.into else []

    def packed(self, pack: str, options: list[str]) -> list[str]:
        """Write the line that packs the filter."""
        if self.keeps:
            return call("weight = kept_copy", ["kept", "layer", "weight", pack, *options], indent=4)
        return call(f"weight = {pack}", ["weight", *options], indent=4)

    def wrapper(self, lines: list[str]) -> str:
        """Write the whole wrapper."""
        kept = [*(["kept", "layer"] if self.keeps else []), *(["out=None"] if self.into else [])]
        head = call(f"def {self.name}", ["x", "weight", *self.tail.arguments, *self.varying, *kept], ":")
        return "\n".join([*head, *(f"    {line}" for line in lines)]) + "\n"
