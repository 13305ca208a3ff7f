"""Implicit GEMM for few input channels, over a copy of the input that needs no test at any of its elements.

One pass over x, which is small against the output, makes the copy [B, GROUPS, *padded pixels, WIDTH]: zeros around
it, channels innermost and filled up to WIDTH, a power of two, rounded to TF32. Taps and channels are one index of the
sum, k = tap * WIDTH + c. So an element of the product's left side lies at base[row] + offset[k], WIDTH of them side
by side: loads are 16 bytes wide, go to shared memory without passing through registers, and need no bounds.

A tile lies inside one sample, so that its positions are neighbours in memory and its stores are wide.
"""

from egg_graph.expert.codegen.launch import call, kernel
from egg_graph.expert.playbooks.convolution.spec import Spec
from egg_graph.expert.playbooks.convolution.tail import Dimension, Tile
from egg_graph.expert.playbooks.knobs import half_and_double, power_of_two
from egg_graph.schema import Knob, StageName

LEAST_WIDTH = 4
"""Channels that fill 16 bytes in fp32."""


def padded_width(channels: int) -> int:
    """Return how many channels the copy has for these of a group."""
    return power_of_two(channels, LEAST_WIDTH)


def padded_tile(rank: int) -> Tile:
    """Return how the kernel's tile addresses the output."""
    row, col = "in_rows[:, None]", "in_cols[None, :]"
    spatial = (Dimension(f"j_{d}[:, None]", row, f"OUT_{d}") for d in range(rank))
    return Tile((Dimension("sample", "", "BATCH"), Dimension("channel[None, :]", col, "(GROUPS * N)"), *spatial))


def padded_config(channels_out: int) -> dict[str, Knob]:
    """Choose 128 positions times all channels of the output up to 128: the copy is then read once."""
    columns = power_of_two(channels_out, 16, 128)
    return {
        "BLOCK_M": 128,
        "BLOCK_N": columns,
        "BLOCK_K": 32,
        "num_warps": 8 if columns > 64 else 4,
        "num_stages": 3,
    }


def padded_space(config: dict[str, Knob]) -> dict[StageName, dict[str, tuple[Knob, ...]]]:
    """Return the values that each tuning stage may try for these knobs, the likely winners first."""
    return {
        "parallel_mapping": {"num_warps": (4, 8)},
        "tensor_tiling": {
            "BLOCK_M": (128, 256, 64),
            "BLOCK_K": (32, 16, 64),
            "BLOCK_N": half_and_double(int(config["BLOCK_N"]), 16, 128),
        },
        "memory_optimization": {"num_stages": (3, 2, 4)},
    }


def write_padded(spec: Spec) -> str:
    """Write the kernel."""
    arguments = [
        "x_ptr", "w_ptr", "out_ptr", *spec.tail.parameters,
        *(f"{name}: tl.constexpr" for name in ("N", "GROUPS", "WIDTH", *spec.geometry)),
        *(f"{knob}: tl.constexpr" for knob in ("BLOCK_M", "BLOCK_N", "BLOCK_K")),
    ]  # fmt: skip
    lines = [*_place(spec), *_bases(spec), *_loop(spec), *spec.tail.lines]
    lines.append(f"tl.store(out_ptr + out_offsets, {spec.tail.result}.to(out_ptr.dtype.element_ty), mask=inside)")
    doc = f"{spec.tail.formula}: BLOCK_M output positions times BLOCK_N channels a program. Sums are in fp32."
    return kernel(f"{spec.name}_kernel", arguments, doc, lines)


def _place(spec: Spec) -> list[str]:
    """Decode the program's number: tiles of channels that read the same input are neighbours."""
    return [
        f"PLACES: tl.constexpr = {spec.each('OUT_#', ' * ')}",
        *spec.lines("SIZE_#: tl.constexpr = IN_# + 2 * P_#"),
        "tiles_m: tl.constexpr = (PLACES + BLOCK_M - 1) // BLOCK_M",
        "tiles_n: tl.constexpr = (N + BLOCK_N - 1) // BLOCK_N",
        "tile = tl.program_id(0) // tiles_n",
        "cols = tl.program_id(0) % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)",
        "position = tile % tiles_m * BLOCK_M + tl.arange(0, BLOCK_M)",
        "plane = (tile // tiles_m).to(tl.int64)",
        "sample, group = plane // GROUPS, plane % GROUPS",
        "in_rows = position < PLACES",
        "in_cols = cols < N",
    ]


def _bases(spec: Spec) -> list[str]:
    """Compute where every row's first tap lies; a row beyond the last reads what the last one reads."""
    lines = ["row = tl.minimum(position, PLACES - 1)"]
    for d in range(spec.rank):
        inner = " * ".join(f"OUT_{i}" for i in range(d + 1, spec.rank))
        index = f"row // ({inner})" if inner else "row"
        lines.append(f"j_{d} = {index} % OUT_{d}" if d else f"j_{d} = {index}")
    return [*lines, f"base = {_pixel(spec, 'j_# * S_#')}"]


def _pixel(spec: Spec, coordinate: str) -> str:
    """Write the number of a pixel of the copy from its coordinates."""
    text = coordinate.replace("#", "0")
    for d in range(1, spec.rank):
        text = f"({text}) * SIZE_{d} + {coordinate.replace('#', str(d))}"
    return text


def _loop(spec: Spec) -> list[str]:
    """Sum over taps and channels; a summand beyond the last is masked, for x may hold what times zero is no zero."""
    taps = []
    for d in range(spec.rank):
        inner = " * ".join(f"T_{i}" for i in range(d + 1, spec.rank))
        text = f"tap // ({inner})" if inner else "tap"
        taps.append(f"    tap_{d} = {text}" + (f" % T_{d}" if d else ""))
    return [
        f"K: tl.constexpr = {spec.each('T_#', ' * ')} * WIDTH",
        f"x_rows = x_ptr + plane * ({spec.each('SIZE_#', ' * ')} * WIDTH) + (base * WIDTH)[:, None]",
        "w_cols = w_ptr + ((group * (tiles_n * BLOCK_N) + cols) * K)[None, :]",
        "acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)",
        "for start in range(0, K, BLOCK_K):",
        "    k = start + tl.arange(0, BLOCK_K)",
        "    tap = k // WIDTH",
        *taps,
        f"    offset = ({_pixel(spec, 'tap_# * D_#')}) * WIDTH + k % WIDTH",
        "    if K % BLOCK_K == 0:",
        "        a = tl.load(x_rows + offset[None, :])",
        "        b = tl.load(w_cols + k[:, None])",
        "    else:",
        "        a = tl.load(x_rows + offset[None, :], mask=(k < K)[None, :], other=0.0)",
        "        b = tl.load(w_cols + k[:, None], mask=(k < K)[:, None], other=0.0)",
        f"    acc = tl.dot(a, b, acc{spec.precision})",
        "channel = group * N + cols",
        "out_offsets = sample * (GROUPS * N * PLACES) + (position[:, None] + (channel * PLACES)[None, :])",
        "inside = in_rows[:, None] & in_cols[None, :]",
    ]


def write_padded_wrapper(spec: Spec) -> str:
    """Write the function that copies the input, packs the filter, allocates the output and launches."""
    places = spec.each("out_#", " * ")
    lines = [
        *spec.wrapper_head(),
        "groups = x.shape[1] // weight.shape[1]",
        "N = weight.shape[0] // groups",
        f"width = max({LEAST_WIDTH}, triton.next_power_of_2(weight.shape[1]))",
        f"shape = (x.shape[0], groups * N, {spec.each('out_#')})",
        f"out = torch.empty(shape, device=x.device, dtype={spec.output_dtype})",
        f"x = padded_channels_last(x, groups, width, ({spec.each('p_#')},), {spec.round_tf32})",
        f"weight = pack_filter(weight, groups, False, {spec.knob('BLOCK_N')}, width, {spec.round_tf32})",
        f"tiles = triton.cdiv({places}, {spec.knob('BLOCK_M')}) * triton.cdiv(N, {spec.knob('BLOCK_N')})",
    ]
    arguments = [
        "x", "weight", "out", *spec.tail.arguments, "N=N", "GROUPS=groups", "WIDTH=width",
        *spec.geometry_arguments, *(f"{knob}={spec.knob(knob)}" for knob in spec.config),
    ]  # fmt: skip
    lines += [*call(f"{spec.name}_kernel[(shape[0] * groups * tiles,)]", arguments, indent=4), "return out"]
    return spec.wrapper(lines)
