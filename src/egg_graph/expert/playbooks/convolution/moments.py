"""The moments that a convolution leaves of its tiles beside its output, for a norm behind it (see `codegen.parts`)."""

from egg_graph.expert.codegen.parts import NUMBERS, is_by_sample
from egg_graph.expert.playbooks.convolution.spec import Spec


def by_sample(spec: Spec) -> bool:
    """Return whether each tile has to lie in one sample."""
    return spec.tail.parts is not None and is_by_sample(spec.tail.parts)


def passed(spec: Spec) -> list[str]:
    """What the store function of an implicit GEMM gets: where its channels' parts begin, and its own number."""
    return ["parts_ptr", "first_part", "own_part", "n_parts"] if spec.tail.parts else []


def numbered_parts(spec: Spec) -> list[str]:
    """Number the part of an implicit GEMM's tile: those of all phases lie side by side, of one sample or of all."""
    if spec.tail.parts is None:
        return []
    phases = "1"
    if spec.transposed:
        phases = " * ".join([*spec.lines("S_#")[:-1], f"(S_{spec.rank - 1} // PHASES)"])
    tiles, tile, first = "tiles_m", "tile_m", "0"
    if by_sample(spec):
        tiles, tile, first = "per_sample", "tile_m % per_sample", "tile_m // per_sample * (GROUPS * N)"
    return [
        f"phases: tl.constexpr = {phases}",
        f"first_part, n_parts = {first}, phases * {tiles}",
        f"own_part = tl.program_id(0) % phases * {tiles} + {tile}",
    ]


def stored_by_rows(spec: Spec) -> list[str]:
    """Store the moments of some columns of an implicit GEMM's tile."""
    if spec.tail.parts is None:
        return []
    part, count = "(first_part + channel) * n_parts + own_part", "tl.sum(in_rows.to(tl.float32), axis=0)"
    return stored_moments(spec, part, "inside", count, "in_cols", axis=0)


def stored_moments(spec: Spec, part: str, inside: str, count: str, channels: str, axis: int) -> list[str]:
    """Write the kernel's lines that store the moments of what the tail computed.

    Args:
        spec: The convolution.
        part: Number of the tile's part, for each of its channels.
        inside: Mask of the tile's numbers.
        count: Number of the tile's positions.
        channels: Mask of the tile's channels.
        axis: Of the tile, along which its positions lie.
    """
    result, aside = spec.tail.result, "[None, :]" if axis == 0 else "[:, None]"
    return [
        f"count = {count}",
        f"middle = tl.sum(tl.where({inside}, {result}, 0.0), axis={axis}) / tl.maximum(count, 1.0)",
        f"apart = tl.where({inside}, {result} - middle{aside}, 0.0)",
        f"part = parts_ptr + ({part}) * {NUMBERS}",
        f"tl.store(part, count + tl.zeros_like(middle), mask={channels})",
        f"tl.store(part + 1, middle, mask={channels})",
        f"tl.store(part + 2, tl.zeros_like(middle), mask={channels})",
        f"tl.store(part + 3, tl.sum(apart * apart, axis={axis}), mask={channels})",
    ]


def allocated_moments(spec: Spec, outer: str, tiles: str) -> list[str]:
    """Write the wrapper's lines that allocate them, [outer, channels, tiles, 4]."""
    if spec.tail.parts is None:
        return []
    shape = f"({outer}, groups * N, {tiles}, {NUMBERS})"
    return [f"parts = torch.empty({shape}, device=x.device, dtype=torch.float32)"]


def parameter(spec: Spec) -> list[str]:
    """Return the kernels' parameter for them."""
    return ["parts_ptr"] if spec.tail.parts else []


def argument(spec: Spec) -> list[str]:
    """Return what the wrapper passes for it."""
    return ["parts"] if spec.tail.parts else []


def returned(spec: Spec) -> str:
    """Write the wrapper's last line."""
    return "return out, parts" if spec.tail.parts else "return out"
