"""Tile sizes and launch options to start from, and the values worth trying, for one convolution."""

from egg_graph.expert.playbooks.knobs import half_and_double, power_of_two
from egg_graph.schema import Knob, StageName


def implicit_config(channels_out: int, summands: int, channels_in: int, flat: bool, wide: bool) -> dict[str, Knob]:
    """Choose 128 positions times up to 128 channels. Addresses fill the registers of fewer than 8 warps.

    Args:
        channels_out: Of one group.
        summands: Length of the whole sum.
        channels_in: Of one group.
        flat: Whether channels and taps are one index of the sum.
        wide: Whether the input has its channels innermost, rounded: then tiles may be as wide as a product's.
    """
    block_n = power_of_two(channels_out, 16, 256 if wide else 128)
    block_k = 32
    if (not flat and channels_in % 32 and channels_in <= 48) or summands <= 16:
        block_k = 16
    return {
        "BLOCK_M": 128,
        "BLOCK_N": block_n,
        "BLOCK_K": block_k,
        "GROUP_M": 8,
        "num_warps": 8,
        "num_stages": 3,
    }


def depthwise_config(positions: int) -> dict[str, Knob]:
    """Choose 1024 positions a program, fewer where a plane has fewer."""
    block = power_of_two(positions, 128, 1024)
    return {"BLOCK": block, "num_warps": 4}


def space(config: dict[str, Knob]) -> dict[StageName, dict[str, tuple[Knob, ...]]]:
    """Return the values that each tuning stage may try for these knobs."""
    if "BLOCK" in config:
        return {
            "parallel_mapping": {"num_warps": (2, 4, 8)},
            "tensor_tiling": {"BLOCK": half_and_double(int(config["BLOCK"]), 128, 4096)},
        }
    return {
        "parallel_mapping": {"num_warps": (4, 8), "GROUP_M": (4, 8, 16)},
        "tensor_tiling": {
            "BLOCK_M": half_and_double(int(config["BLOCK_M"]), 64, 256),
            "BLOCK_N": half_and_double(int(config["BLOCK_N"]), 16, 256),
            "BLOCK_K": half_and_double(int(config["BLOCK_K"]), 16, 64),
        },
        "memory_optimization": {"num_stages": (2, 3, 4)},
    }
