"""Tile sizes and launch options to start from, and the values worth trying, for one convolution.

First choices, and the first values of each space, are those that won on an H200 at TF32. Those of flat sums were not
measured since their loads became coalesced.
"""

from math import prod

from egg_graph.expert.playbooks.knobs import half_and_double, power_of_two
from egg_graph.schema import Knob, StageName


def implicit_config(channels_out: int, channels_in: int, channels_last: bool) -> dict[str, Knob]:
    """Choose 128 positions times up to 128 channels; wide steps of the sum where BLOCK_K channels fill them.

    Args:
        channels_out: Of one group.
        channels_in: Of one group.
        channels_last: Whether the input has its channels innermost, rounded.
    """
    filled = channels_in % 32 == 0 or channels_in > 64
    if channels_last:
        tile = (128, 128, 32, 8, 3) if filled else (256, 64, 16, 8, 3)
    else:
        tile = (128, 128, 32, 8, 3) if filled else (128, 64, 16, 4, 4)
    return _config(channels_out, tile)


def flat_config(channels_out: int, sizes: tuple[int, ...]) -> tuple[int, dict[str, Knob]]:
    """Choose where to cut a flat sum, and tiles. The cut is the one that fills up least with zeros.

    Args:
        channels_out: Of one group.
        sizes: (channels, *taps) that one output sums.

    Returns:
        The dimension that a run holds a part of, and the knobs.
    """
    choices = []
    for block_k in (16, 32):
        for split, size in enumerate(sizes):
            inner = prod(sizes[split + 1 :])
            if inner <= block_k:
                blocks = prod(sizes[:split]) * -(-size // min(size, block_k // inner))
                choices.append((blocks * (block_k + 8), split, block_k))
    _, split, block_k = min(choices)
    return split, _config(channels_out, (128, 128, block_k, 8 if channels_out > 64 else 4, 3))


def _config(channels_out: int, tile: tuple[int, int, int, int, int]) -> dict[str, Knob]:
    names = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "num_warps", "num_stages")
    config: dict[str, Knob] = {**dict(zip(names, tile, strict=True)), "GROUP_M": 8}
    return {**config, "BLOCK_N": power_of_two(channels_out, 16, tile[1])}


def depthwise_config(positions: int) -> dict[str, Knob]:
    """Choose 2048 positions a program, fewer where a plane has fewer."""
    return {"BLOCK": power_of_two(positions, 128, 2048), "num_warps": 8 if positions > 1024 else 4}


def space(config: dict[str, Knob], flat: bool) -> dict[StageName, dict[str, tuple[Knob, ...]]]:
    """Return the values that each tuning stage may try for these knobs, the likely winners first.

    A flat sum's BLOCK_K never goes below the first choice, which holds what a run has inside.
    """
    if "BLOCK" in config:
        return {
            "parallel_mapping": {"num_warps": (4, 8)},
            "tensor_tiling": {"BLOCK": (2048, 1024, 512)},
        }
    return {
        "parallel_mapping": {"num_warps": (4, 8)},
        "tensor_tiling": {
            "BLOCK_K": (int(config["BLOCK_K"]), 2 * int(config["BLOCK_K"])) if flat else (16, 32),
            "BLOCK_N": half_and_double(int(config["BLOCK_N"]), 16, 128),
            "BLOCK_M": (128, 256, 64),
        },
        "memory_optimization": {"num_stages": (3, 4, 2), "GROUP_M": (8, 4)},
    }
