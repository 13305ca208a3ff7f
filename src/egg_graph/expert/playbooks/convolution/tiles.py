"""Tile sizes and launch options to start from, and the values worth trying, for one convolution.

First choices, and the first values of each space, are those that won on an H200 at TF32.
"""

from egg_graph.expert.playbooks.knobs import half_and_double, power_of_two
from egg_graph.schema import Knob, StageName


def implicit_config(
    channels_out: int, summands: int, channels_in: int, flat: bool, channels_last: bool
) -> dict[str, Knob]:
    """Choose 128 positions times up to 128 channels.

    Where an element is gathered alone, its address costs more than its product: narrow steps of the sum, with more of
    them in flight, keep fewer addresses in registers. Wide steps pay where BLOCK_K channels fill them.

    Args:
        channels_out: Of one group.
        summands: Length of the whole sum.
        channels_in: Of one group.
        flat: Whether channels and taps are one index of the sum.
        channels_last: Whether the input has its channels innermost, rounded.
    """
    filled = channels_in % 32 == 0 or channels_in > 64
    if flat or summands <= 16:
        tile = (128, 64, 16, 4, 4)
    elif channels_last:
        tile = (128, 128, 32, 8, 3) if filled else (256, 64, 16, 8, 3)
    else:
        tile = (128, 128, 32, 8, 3) if filled else (128, 64, 16, 4, 4)
    names = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "num_warps", "num_stages")
    config: dict[str, Knob] = {**dict(zip(names, tile, strict=True)), "GROUP_M": 8}
    return {**config, "BLOCK_N": power_of_two(channels_out, 16, tile[1])}


def depthwise_config(positions: int) -> dict[str, Knob]:
    """Choose 2048 positions a program, fewer where a plane has fewer."""
    return {"BLOCK": power_of_two(positions, 128, 2048), "num_warps": 8 if positions > 1024 else 4}


def space(config: dict[str, Knob]) -> dict[StageName, dict[str, tuple[Knob, ...]]]:
    """Return the values that each tuning stage may try for these knobs, the likely winners first."""
    if "BLOCK" in config:
        return {
            "parallel_mapping": {"num_warps": (4, 8)},
            "tensor_tiling": {"BLOCK": (2048, 1024, 512)},
        }
    return {
        "parallel_mapping": {"num_warps": (4, 8)},
        "tensor_tiling": {
            "BLOCK_K": (16, 32),
            "BLOCK_N": half_and_double(int(config["BLOCK_N"]), 16, 128),
            "BLOCK_M": (128, 256, 64),
        },
        "memory_optimization": {"num_stages": (3, 4, 2), "GROUP_M": (8, 4)},
    }
