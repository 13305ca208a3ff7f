"""Tile sizes and launch options to start from, and the values worth trying, for one convolution.

`RULES` is fitted to a survey of KernelBench's convolutions on an H200 at TF32, where times scatter by 5 to 10 %:
`docs/results/convolution_survey_h200.md` tells on how many problems each row stands, and what it gained.
"""

import math
from dataclasses import dataclass
from typing import Literal

from egg_graph.expert.playbooks.knobs import power_of_two
from egg_graph.schema import Knob, StageName

Structure = Literal["flat", "planes", "channels_last"]
"""How an implicit GEMM reads its input; `flat` if channels and taps are one index of the sum."""
Range = tuple[float, float]
"""Least and most, both included."""
ANY = (0.0, math.inf)

LARGEST_TF32X3_TILE = 128 * 128
"""Numbers of a tile that 8 warps hold without spilling beside operands in two parts: compiled for sm_90."""
LARGEST_HELD_TILE = 128 * 128
"""Numbers of a tile whose tail is computed at once, for it reduces over all of its channels."""
SMALLEST_TILE = (64, 32)
"""Rows that one instruction of the tensor cores has, and columns below which operands are read too often."""
FEW_CHANNELS = 16
"""Below this many input channels of a group, channels and taps are one index of the sum, unless asked otherwise."""
FEWEST_MOVED = 8
"""From this many on, a transposed convolution reads them innermost all the same: half of a step's lanes are idle, but
its loads are wide and it has fewer bounds (level 1/72 of KernelBench on an H200: 3.2 times as fast as PyTorch, not
1.4). Below, most lanes would be idle."""
CHANNELS_WORTH_MOVING = 32
"""From this many input channels on, one pass that puts the channels innermost pays for itself in wide loads, if every
number is read for several taps; in three dimensions without strides, which have many, from `FEW_CHANNELS` on."""
WIDE_TILE, LONG_SUM = 64, 512
"""Channels of the output beyond which, and summands from which on, the statistics of a norm are made by a pass."""
TAPS_OF_A_LINE = 3
"""Up to this many taps, one dimension is read as fast where it lies: neighbouring rows are neighbours in memory."""


@dataclass(frozen=True)
class Shape:
    """What the choice of structure and knobs depends on, at full shape."""

    rank: int
    """Number of spatial dimensions."""
    transposed: bool
    channels_in: int
    """Of one group."""
    channels_out: int
    """Of one group."""
    taps: int
    phase_taps: int
    """Of a transposed convolution, the most that one phase has; else all taps."""
    strides: int
    """Product over the dimensions."""

    @property
    def summands(self) -> int:
        """Length of the longest sum."""
        return self.channels_in * self.phase_taps

    @property
    def filled(self) -> bool:
        """Whether steps of 32 channels leave few lanes idle."""
        return self.channels_in % 32 == 0 or self.channels_in > 64


def structure_for(shape: Shape, wish: str = "") -> Structure:
    """Return the structure to read the input with: the one wished for where it fits, else the one that pays."""
    moved = wish == "channels_last" or (shape.transposed and not wish)
    if shape.channels_in < (FEWEST_MOVED if moved else FEW_CHANNELS):
        return "flat"
    if shape.channels_in < FEW_CHANNELS:
        return "channels_last"
    if wish in ("planes", "channels_last"):
        return "planes" if wish == "planes" else "channels_last"
    few_taps = shape.taps <= (TAPS_OF_A_LINE if shape.rank == 1 else 1)
    if few_taps or (shape.transposed and shape.taps < shape.strides):
        return "planes"
    dense = shape.rank == 3 and shape.strides == 1
    return "channels_last" if dense or shape.channels_in >= CHANNELS_WORTH_MOVING else "planes"


def leaves_moments(shape: Shape) -> bool:
    """Return whether an implicit GEMM should leave the moments of its tiles for a norm behind it.

    Beside long sums into a wide tile the two reductions of the tile cost more than reading the output once more (H200:
    levels 2/11, 2/52 and 2/17 of KernelBench took 3, 4 and 18 % longer with them; 2/15, 2/19 and 2/60, with up to 64
    channels, 4, 3 and 1 % less).
    """
    return shape.channels_out <= WIDE_TILE or shape.summands < LONG_SUM


@dataclass(frozen=True)
class Rule:
    """The knobs for one class of shapes."""

    structure: Structure
    block_m: int
    block_n: int
    """The most: a narrower power of two where that covers the output channels."""
    block_k: int
    num_warps: int
    num_stages: int
    rank: int | None = None
    """None for any, as in the fields that follow."""
    transposed: bool | None = None
    filled: bool | None = None
    channels_in: Range = ANY
    channels_out: Range = ANY
    summands: Range = ANY

    def holds(self, shape: Shape, structure: Structure) -> bool:
        """Return whether a shape, written with a structure, is of this class."""
        return (
            self.structure == structure
            and self.rank in (None, shape.rank)
            and self.transposed in (None, shape.transposed)
            and self.filled in (None, shape.filled)
            and self.channels_in[0] <= shape.channels_in <= self.channels_in[1]
            and self.channels_out[0] <= shape.channels_out <= self.channels_out[1]
            and self.summands[0] <= shape.summands <= self.summands[1]
        )

    @property
    def text(self) -> str:
        """The class in words."""
        words = [self.structure.replace("_", " ")]
        words += [f"{self.rank}D"] if self.rank else []
        words += [] if self.transposed is None else ["transposed" if self.transposed else "plain"]
        words += [] if self.filled is None else ["no multiple of 32 channels"]
        for name, (least, most) in (
            ("in", self.channels_in), ("out", self.channels_out), ("summands", self.summands),
        ):  # fmt: skip
            if (least, most) != ANY:
                words.append(f"{name} {least:.0f} to {most:.0f}" if most < math.inf else f"{name} from {least:.0f}")
        return ", ".join(words)


RULES = (
    # One step takes the whole sum.
    Rule("flat", 128, 64, 32, 4, 3, summands=(17, 32)),
    Rule("flat", 256, 128, 16, 8, 3, channels_out=(65, math.inf)),
    Rule("flat", 256, 16, 32, 4, 3, rank=3, channels_in=(1, 7), channels_out=(1, 16)),
    Rule("flat", 64, 32, 32, 4, 2, rank=3, transposed=False, channels_in=(8, 15), channels_out=(17, 32)),
    Rule("flat", 128, 64, 16, 4, 3, rank=2, transposed=False, channels_in=(8, 15)),
    Rule("flat", 256, 64, 16, 4, 3),
    Rule("planes", 256, 32, 16, 4, 4, filled=False, channels_out=(1, 32)),
    Rule("planes", 128, 64, 16, 4, 4, filled=False),
    Rule("planes", 256, 32, 16, 8, 3, channels_out=(17, 32)),
    Rule("planes", 128, 64, 32, 4, 3, channels_out=(1, 64)),
    # Twice as many rows spill with 4 warps.
    Rule("planes", 128, 128, 32, 4, 4),
    Rule("channels_last", 256, 64, 16, 4, 2, transposed=True, channels_in=(8, 15)),
    Rule("channels_last", 256, 64, 16, 8, 3, filled=False, channels_in=(1, 16)),
    Rule("channels_last", 256, 64, 16, 4, 4, filled=False),
    Rule("channels_last", 128, 16, 32, 4, 3, channels_out=(1, 16)),
    Rule("channels_last", 256, 32, 32, 8, 3, channels_out=(17, 32)),
    Rule("channels_last", 128, 64, 32, 4, 3, transposed=True, channels_out=(33, 64)),
    Rule("channels_last", 128, 64, 32, 8, 3, channels_out=(33, 64)),
    # The phases of a stride have short sums: smaller programs overlap one's tail with another's sums.
    Rule("channels_last", 128, 128, 32, 4, 3, transposed=True, summands=(1, 256)),
    Rule("channels_last", 256, 128, 32, 8, 3, transposed=True),
    Rule("channels_last", 128, 128, 32, 4, 3),
)
"""Classes of shapes, the first that holds decides. The last of every structure holds for all of its shapes."""


def rule_for(shape: Shape, structure: Structure) -> Rule:
    """Return the row of `RULES` that the knobs come from."""
    return next(rule for rule in RULES if rule.holds(shape, structure))


def implicit_config(
    shape: Shape, structure: Structure, *, all_digits: bool = False, tf32x3: bool = False
) -> dict[str, Knob]:
    """Choose the knobs of an implicit GEMM to start from; with all digits of fp32, 8 warps share the registers.

    Under `tf32x3`, where operands in two parts need registers too, a tile has at most 128 x 128 numbers.
    """
    rule = rule_for(shape, structure)
    block_n = power_of_two(shape.channels_out, 16, rule.block_n)
    return {
        "BLOCK_M": min(rule.block_m, LARGEST_TF32X3_TILE // block_n) if tf32x3 else rule.block_m,
        "BLOCK_N": block_n,
        "BLOCK_K": rule.block_k,
        "num_warps": 8 if all_digits else rule.num_warps,
        "num_stages": rule.num_stages,
        "GROUP_M": 8,
    }


def filling(config: dict[str, Knob], positions: int, channels_out: int, groups: int, machine: int) -> dict[str, Knob]:
    """Halve a tile until half of the multiprocessors have one, as late layers of small batches need.

    Args:
        config: The knobs of an implicit GEMM.
        positions: Samples times positions of the output.
        channels_out: Of one group.
        groups: Of channels.
        machine: Number of multiprocessors.
    """
    block_m, block_n = int(config["BLOCK_M"]), int(config["BLOCK_N"])

    def starves() -> bool:
        return groups * -(-positions // block_m) * -(-channels_out // block_n) * 2 <= machine

    if not starves():
        return config
    while starves() and (block_m > SMALLEST_TILE[0] or block_n > SMALLEST_TILE[1]):
        if block_m > SMALLEST_TILE[0]:
            block_m //= 2
        else:
            block_n //= 2
    warps = min(int(config["num_warps"]), 4 if block_m * block_n <= 64 * 128 else 8)
    return {**config, "BLOCK_M": block_m, "BLOCK_N": block_n, "num_warps": warps}


def holding(config: dict[str, Knob], shape: Shape) -> dict[str, Knob]:
    """Let a tile hold all output channels, for a tail that reduces over them.

    Of 16 channels 256 positions pay, and of 128 in a transposed convolution, whose sums are short; else what pays
    without such a tail (H200: levels 2/32, 49, 58, 91 of KernelBench).
    """
    block_n = power_of_two(shape.channels_out, 16)
    wide = shape.transposed and block_n > 64
    block_m = 256 if block_n == 16 or wide else min(int(config["BLOCK_M"]), LARGEST_HELD_TILE // block_n)
    return {**config, "BLOCK_M": block_m, "BLOCK_N": block_n, "num_warps": 8 if wide else config["num_warps"]}


def depthwise_config(positions: int, taps: int) -> dict[str, Knob]:
    """Choose two positions a thread where many taps are summed, four where few are: loads of planes then overlap."""
    return {"BLOCK": power_of_two(positions, 128, 512 if taps > 4 else 1024), "num_warps": 8 if positions > 256 else 4}


def space(config: dict[str, Knob], channels_out: int) -> dict[StageName, dict[str, tuple[Knob, ...]]]:
    """Return the values that each tuning stage may try for these knobs, the likely winners first.

    GROUP_M is left alone: between 4 and 8 there was no difference in 202 pairs of measurements.

    Args:
        config: The knobs to start from.
        channels_out: Of one group.
    """
    if "BLOCK" in config:
        return {"parallel_mapping": {"num_warps": (8, 4)}, "tensor_tiling": {"BLOCK": (512, 1024, 256)}}
    block_n = int(config["BLOCK_N"])
    other = block_n * 2 if block_n <= 32 or block_n < channels_out <= 128 else block_n // 2
    return {
        "parallel_mapping": {"num_warps": (4, 8)},
        "tensor_tiling": {
            "BLOCK_M": (256, 128),
            "BLOCK_K": (16, 32),
            "BLOCK_N": (block_n, other),
        },
        "memory_optimization": {"num_stages": (3, 4, 2)},
    }
