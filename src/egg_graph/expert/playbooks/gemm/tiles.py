"""Tile sizes and launch options to start from, and the values worth trying, for one matrix product on one GPU."""

from dataclasses import dataclass

from egg_graph.schema import Hardware, Knob, StageName

MULTIPROCESSORS = 132
SHARED_BYTES = 232448
"""Of an H100 or H200, where no target is given."""


@dataclass(frozen=True)
class Problem:
    """What decides a tile: the sizes at full shape and how the operands are multiplied."""

    matrices: int
    M: int
    N: int
    K: int
    bytes_per_element: int
    ieee: bool = False
    """fp32 products on the fp32 pipes, not on tensor cores."""
    target: Hardware | None = None
    tile_operands: int = 0
    """Tensors of the output's size that the epilogue reads: each passes through shared memory."""

    @property
    def multiprocessors(self) -> int:
        return int(self.target.figure("multiprocessors")) if self.target else MULTIPROCESSORS

    @property
    def shared_bytes(self) -> int:
        return int(self.target.figure("shared_memory_per_block")) if self.target else SHARED_BYTES

    def tiles(self, block_m: int, block_n: int) -> int:
        return self.matrices * -(-self.M // block_m) * -(-self.N // block_n)


def power_of_two(n: int, least: int, most: int) -> int:
    """The smallest power of two that covers n, within bounds."""
    result = least
    while result < n and result < most:
        result *= 2
    return result


def pointer_tile(problem: Problem) -> dict[str, Knob]:
    """One program per tile, operands through registers: 128 x 128, smaller where that leaves multiprocessors idle."""
    block_k = 16 if problem.ieee else 128 // problem.bytes_per_element
    block_m, block_n = power_of_two(problem.M, 16, 128), power_of_two(problem.N, 16, 128)
    while problem.tiles(block_m, block_n) < problem.multiprocessors and max(block_m, block_n) > 64:
        if block_n >= block_m:
            block_n //= 2
        else:
            block_m //= 2
    return {
        "BLOCK_M": block_m,
        "BLOCK_N": block_n,
        "BLOCK_K": block_k,
        "GROUP_M": 8,
        "num_warps": 8 if block_m * block_n >= 128 * 128 else 4,
        "num_stages": 3,
    }


def persistent_tile(problem: Problem, swapped: bool = False) -> dict[str, Knob]:
    """Operands by TMA, one program per multiprocessor: 128 x 256 (measured best on an H200), its store in four chunks.

    `swapped` computes the transposed tile, so that the long side is M.
    """
    short, long = (problem.N, problem.M) if swapped else (problem.M, problem.N)
    block_s, block_l, block_k = power_of_two(short, 64, 128), 256, 128 // problem.bytes_per_element
    while block_l > 64:
        tiles = problem.matrices * -(-short // block_s) * -(-long // block_l)
        if long > block_l // 2 and tiles >= problem.multiprocessors // 2:
            break
        block_l //= 2
    block_m, block_n = (block_l, block_s) if swapped else (block_s, block_l)
    split = max(1, block_m * block_n // (128 * (32 if problem.tile_operands else 64)))
    stage = (block_m + block_n) * block_k * problem.bytes_per_element
    staging = (1 + min(1, problem.tile_operands)) * block_m * (block_n // split) * problem.bytes_per_element
    if swapped:
        staging += block_m * block_n * 3 // 2  # the transposed tile on its way back
    return {
        "BLOCK_M": block_m,
        "BLOCK_N": block_n,
        "BLOCK_K": block_k,
        "GROUP_M": 8,
        "PROGRAMS": problem.multiprocessors,
        "EPILOGUE_SPLIT": split,
        "num_warps": 8 if block_s >= 128 else 4,
        "num_stages": max(2, min(4, (problem.shared_bytes - staging - 2048) // stage)),
    }


def split_k_tile(problem: Problem) -> dict[str, Knob]:
    """Small tiles, and enough shares of K for two programs on every multiprocessor."""
    block_m, block_n = power_of_two(problem.M, 16, 64), power_of_two(problem.N, 16, 64)
    block_k = 32 if problem.ieee else 256 // problem.bytes_per_element
    shares = 2
    while problem.tiles(block_m, block_n) * shares < 2 * problem.multiprocessors and shares * block_k * 8 < problem.K:
        shares *= 2
    return {
        "BLOCK_M": block_m, "BLOCK_N": block_n, "BLOCK_K": block_k, "SPLIT_K": shares, "num_warps": 4, "num_stages": 3,
    }  # fmt: skip


def space(config: dict[str, Knob], problem: Problem) -> dict[StageName, dict[str, tuple[Knob, ...]]]:
    """What each tuning stage may turn of these knobs."""
    persistent = "PROGRAMS" in config
    k = int(config["BLOCK_K"])
    choices: dict[StageName, dict[str, tuple[Knob, ...]]] = {
        "parallel_mapping": {"num_warps": (4, 8)},
        "tensor_tiling": {
            "BLOCK_M": _near(int(config["BLOCK_M"]), 16, 256),
            "BLOCK_N": _near(int(config["BLOCK_N"]), 16, 256),
            "BLOCK_K": (k,) if persistent else (k, 2 * k),
        },
        "memory_optimization": {"num_stages": (2, 3, 4)},
    }
    if "GROUP_M" in config:
        choices["parallel_mapping"]["GROUP_M"] = (4, 8, 16)
    if "SPLIT_K" in config:
        choices["parallel_mapping"]["SPLIT_K"] = _near(int(config["SPLIT_K"]), 2, 256)
    if persistent:
        choices["memory_optimization"]["EPILOGUE_SPLIT"] = _near(int(config["EPILOGUE_SPLIT"]), 1, 8)
    return choices


def _near(value: int, least: int, most: int) -> tuple[Knob, ...]:
    """Half, the value, and double."""
    return tuple(v for v in (value // 2, value, value * 2) if least <= v <= most)
