"""Tile sizes and launch options to start from, and the values worth trying, for one matrix product on one GPU."""

from dataclasses import dataclass

from egg_graph.expert.playbooks.knobs import half_and_double, multiprocessors, power_of_two, shared_bytes
from egg_graph.schema import Hardware, Knob, StageName


@dataclass(frozen=True)
class ProductShape:
    """What decides a tile: the sizes at full shape, the arithmetic, and the GPU."""

    matrices: int
    M: int
    N: int
    K: int
    bytes_per_element: int
    ieee: bool = False
    """Whether fp32 products run on the fp32 pipes instead of the tensor cores."""
    target: Hardware | None = None
    tile_operands: int = 0
    """Number of tensors of the output's size that the epilogue reads; each passes through shared memory."""

    @property
    def multiprocessors(self) -> int:
        return multiprocessors(self.target)

    @property
    def shared_bytes(self) -> int:
        return shared_bytes(self.target)

    def tiles(self, block_m: int, block_n: int) -> int:
        """Count the output tiles of this size."""
        return self.matrices * -(-self.M // block_m) * -(-self.N // block_n)


def pointer_tile(shape: ProductShape) -> dict[str, Knob]:
    """Choose tiles of 128 x 128 for one program each, smaller where that leaves multiprocessors idle."""
    block_k = 16 if shape.ieee else 128 // shape.bytes_per_element
    block_m, block_n = power_of_two(shape.M, 16, 128), power_of_two(shape.N, 16, 128)
    while shape.tiles(block_m, block_n) < shape.multiprocessors and max(block_m, block_n) > 64:
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


def persistent_tile(shape: ProductShape, swapped: bool = False) -> dict[str, Knob]:
    """Choose tiles of 128 x 256 (measured best on an H200) for one program per multiprocessor, stored in four chunks.

    With `swapped`, which computes the transposed tile, the long side is M.
    """
    short, long = (shape.N, shape.M) if swapped else (shape.M, shape.N)
    block_s, block_l, block_k = power_of_two(short, 64, 128), 256, 128 // shape.bytes_per_element
    while block_l > 64:
        tiles = shape.matrices * -(-short // block_s) * -(-long // block_l)
        if long > block_l // 2 and tiles >= shape.multiprocessors // 2:
            break
        block_l //= 2
    block_m, block_n = (block_l, block_s) if swapped else (block_s, block_l)
    split = max(1, block_m * block_n // (128 * (32 if shape.tile_operands else 64)))
    stage = (block_m + block_n) * block_k * shape.bytes_per_element
    staging = (1 + min(1, shape.tile_operands)) * block_m * (block_n // split) * shape.bytes_per_element
    if swapped:
        staging += block_m * block_n * 3 // 2  # the transposed tile on its way back
    return {
        "BLOCK_M": block_m,
        "BLOCK_N": block_n,
        "BLOCK_K": block_k,
        "GROUP_M": 8,
        "PROGRAMS": shape.multiprocessors,
        "EPILOGUE_SPLIT": split,
        "num_warps": 8 if block_s >= 128 else 4,
        "num_stages": max(2, min(4, (shape.shared_bytes - staging - 2048) // stage)),
    }


def split_k_tile(shape: ProductShape) -> dict[str, Knob]:
    """Choose small tiles, and enough shares of K for two programs on every multiprocessor."""
    block_m, block_n = power_of_two(shape.M, 16, 64), power_of_two(shape.N, 16, 64)
    block_k = 32 if shape.ieee else 256 // shape.bytes_per_element
    shares = 2
    while shape.tiles(block_m, block_n) * shares < 2 * shape.multiprocessors and shares * block_k * 8 < shape.K:
        shares *= 2
    return {
        "BLOCK_M": block_m, "BLOCK_N": block_n, "BLOCK_K": block_k, "SPLIT_K": shares, "num_warps": 4, "num_stages": 3,
    }  # fmt: skip


def vector_tile(shape: ProductShape) -> dict[str, Knob]:
    """Choose long reads of few rows, and shares of K for eight programs on every multiprocessor."""
    block_m, block_k, shares = power_of_two(shape.M, 1, 8), power_of_two(shape.K, 32, 512), 1
    while shape.tiles(block_m, 1) * shares < 8 * shape.multiprocessors and shares * block_k * 8 < shape.K:
        shares *= 2
    return {"BLOCK_M": block_m, "BLOCK_K": block_k, "SPLIT_K": shares, "num_warps": 4}


def space(config: dict[str, Knob]) -> dict[StageName, dict[str, tuple[Knob, ...]]]:
    """Return the values that each tuning stage may try for these knobs."""
    persistent = "PROGRAMS" in config
    k = int(config["BLOCK_K"])
    if "BLOCK_N" not in config:  # a vector
        return {
            "parallel_mapping": {
                "num_warps": (4, 8), "SPLIT_K": half_and_double(int(config["SPLIT_K"]), 1, 256),
            },
            "tensor_tiling": {
                "BLOCK_M": half_and_double(int(config["BLOCK_M"]), 1, 32), "BLOCK_K": half_and_double(k, 32, 2048),
            },
        }  # fmt: skip
    choices: dict[StageName, dict[str, tuple[Knob, ...]]] = {
        "parallel_mapping": {"num_warps": (4, 8)},
        "tensor_tiling": {
            "BLOCK_M": half_and_double(int(config["BLOCK_M"]), 16, 256),
            "BLOCK_N": half_and_double(int(config["BLOCK_N"]), 16, 256),
            "BLOCK_K": (k,) if persistent else (k, 2 * k),
        },
        "memory_optimization": {"num_stages": (2, 3, 4)},
    }
    if "GROUP_M" in config:
        choices["parallel_mapping"]["GROUP_M"] = (4, 8, 16)
    if "SPLIT_K" in config:
        choices["parallel_mapping"]["SPLIT_K"] = half_and_double(int(config["SPLIT_K"]), 2, 256)
    if persistent:
        choices["memory_optimization"]["EPILOGUE_SPLIT"] = half_and_double(int(config["EPILOGUE_SPLIT"]), 1, 8)
    return choices
