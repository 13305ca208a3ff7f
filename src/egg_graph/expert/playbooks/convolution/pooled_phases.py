"""A transposed convolution and the maximum pooling behind it, where a window is what one place of the input makes.

With windows as wide as the stride, the outputs of a window are its phases: one for each residue along each dimension.
All of them read the same few inputs, `REACH_d` from `LOW_d` on along dimension d, each through taps of its own. So a
row of the product stands for one window, and its columns are all phases times all channels, phase by phase: zeros in
the packed filter where a phase has no tap. The tail ahead of the pooling runs on all of them in registers, then the
left half of the columns and the right one are joined until one phase is left. What the convolution makes, several times
as much as the pooling leaves, is never written.

The input is the padded copy that `padded` describes, and as there a reduction over channels is part of the tail, and
what is reduced over all pixels is left as one part a tile. Infinite or NaN inputs reach the windows beside them, too:
zero times them is NaN.
"""

from egg_graph.expert.codegen.launch import call, kernel
from egg_graph.expert.playbooks.convolution.padded import LEAST_WIDTH, decoded, pixel, stored, summed
from egg_graph.expert.playbooks.convolution.phases import MOST_COLUMNS, packed_filter, padded_input, reached
from egg_graph.expert.playbooks.convolution.pixel_parts import allocated_parts, joined_parts, parts_of_tile
from egg_graph.expert.playbooks.convolution.spec import Spec
from egg_graph.expert.playbooks.convolution.window import JOINED
from egg_graph.schema import Knob, StageName


def pooled_config(columns: int, *, all_digits: bool = False) -> dict[str, Knob]:
    """Choose 128 windows a program; half of them where products with all digits of fp32 need registers, too.

    On an H200 8 warps took 3 to 36 % less time than 4 at 128 columns (levels 2/96, 2/89 of KernelBench).
    """
    stages = 2 if columns <= MOST_COLUMNS else 3
    return {"BLOCK_M": 64 if all_digits else 128, "BLOCK_K": 32, "num_warps": 8, "num_stages": stages}


def pooled_space(columns: int) -> dict[StageName, dict[str, tuple[Knob, ...]]]:
    """Return the values that each tuning stage may try for these knobs, the likely winners first."""
    return {
        "parallel_mapping": {"num_warps": (8, 4)},
        "tensor_tiling": {"BLOCK_M": (128, 64), "BLOCK_K": (32, 16)},
        "memory_optimization": {"num_stages": (2, 1) if columns <= MOST_COLUMNS else (3, 2)},
    }


def write_pooled_phases(spec: Spec) -> str:
    """Write the kernel."""
    names = [name for text in ("V_#", "REACH_#", "SIZE_#") for name in spec.lines(text)]
    arguments = [
        "x_ptr", "w_ptr", "out_ptr", *spec.tail.parameters,
        *(f"{name}: tl.constexpr" for name in ("N", "GROUPS", "WIDTH", "PHASES", *names)),
        *(f"{name}: tl.constexpr" for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K")),
    ]  # fmt: skip
    offset = pixel(spec, spec.lines("tap_#"))
    lines = [*_rows(spec), *summed(spec, "PHASES * BLOCK_N", spec.lines("REACH_#"), offset), *_joined(spec)]
    lines += [*_places(spec), *spec.tail.lines, *(parts_of_tile(spec) if spec.tail.pixels else stored(spec))]
    doc = f"{spec.tail.formula}: BLOCK_M windows, all phases of all channels, a program. Sums are in fp32."
    return kernel(f"{spec.name}_kernel", arguments, doc, lines)


def _rows(spec: Spec) -> list[str]:
    """Decode the program's number, and where every row's inputs begin; a row beyond the last reads what that reads."""
    return [
        f"OUT_PIXELS: tl.constexpr = {spec.each('V_#', ' * ')}",
        "tiles_m: tl.constexpr = (OUT_PIXELS + BLOCK_M - 1) // BLOCK_M",
        "tile = tl.program_id(0)",
        "sample = (tile // tiles_m).to(tl.int64)",
        "row = tl.minimum(tile % tiles_m * BLOCK_M + tl.arange(0, BLOCK_M), OUT_PIXELS - 1)",
        *decoded("row", "j", spec.lines("V_#")),
        f"base = {pixel(spec, spec.lines('j_#'))}",
        f"x_rows = x_ptr + sample * ({spec.each('SIZE_#', ' * ')} * WIDTH) + (base * WIDTH)[:, None]",
        f"K: tl.constexpr = {spec.each('REACH_#', ' * ')} * WIDTH",
        "w_cols = w_ptr + (tl.arange(0, PHASES * BLOCK_N) * K)[None, :]",
    ]


def _joined(spec: Spec) -> list[str]:
    """Write the tail of every phase, and join the phases; then channels times positions are left."""
    window = spec.tail.window
    assert window is not None
    return [
        "acc = tl.trans(acc)  # phases and channels times positions",
        "channel = tl.arange(0, PHASES * BLOCK_N) % BLOCK_N",
        "in_channels = channel < N",
        *spec.tail.walked,
        f"pooled = tl.trans({spec.tail.joined})",
        f"for _ in tl.static_range({spec.phases.bit_length() - 1}):",
        "    left, right = column_halves(pooled)",
        f"    pooled = {JOINED[window.kind].format('left', 'right')}",
        "pooled = tl.trans(pooled)",
        "channel = tl.arange(0, BLOCK_N)",
        "in_channels = channel < N",
    ]


def _places(spec: Spec) -> list[str]:
    """Compute the coordinates and offsets of the tile's results."""
    return [
        "place = tile % tiles_m * BLOCK_M + tl.arange(0, BLOCK_M)",
        "in_places = place < OUT_PIXELS",
        *decoded("place", "o", spec.lines("V_#")),
        "out_offsets = sample * (GROUPS * N * OUT_PIXELS) + ((channel * OUT_PIXELS)[:, None] + place[None, :])",
        "inside = in_channels[:, None] & in_places[None, :]",
    ]


def write_pooled_phases_wrapper(spec: Spec) -> str:
    """Write the function that copies the input, packs the filter, allocates the output and launches."""
    lines = [
        *spec.wrapper_head(),
        "N = weight.shape[1]",
        "block_n = max(16, triton.next_power_of_2(N))",
        f"width = max({LEAST_WIDTH}, triton.next_power_of_2(weight.shape[0]))",
        *reached(spec, "v_#", "out_# // s_#", "0"),
        *_allocation(spec),
        *padded_input(spec, "groups"),
        *packed_filter(spec, "block_n", f"{(1,) * spec.rank}", f"({spec.each('s_#')},)"),
    ]
    arguments = [
        "x", "weight", "out", *spec.tail.arguments, "N=N", "GROUPS=groups", "WIDTH=width",
        f"PHASES={spec.each('s_#', ' * ')}", *spec.lines("V_#=v_#"), *spec.lines("REACH_#=reach_#"),
        *spec.lines("SIZE_#=size_#"), "BLOCK_N=block_n", *(f"{knob}={spec.knob(knob)}" for knob in spec.config),
    ]  # fmt: skip
    lines += call(f"{spec.name}_kernel[(x_shape[0] * tiles_m,)]", arguments, indent=4)
    lines += joined_parts(spec) if spec.tail.pixels else ["return out"]
    return spec.wrapper(lines)


def _allocation(spec: Spec) -> list[str]:
    """Write the wrapper's lines that count the tiles of a sample, and allocate what they leave."""
    tiles = f"tiles_m = triton.cdiv({spec.each('v_#', ' * ')}, {spec.knob('BLOCK_M')})"
    if spec.tail.pixels:
        return [tiles, *allocated_parts(spec)]
    return [tiles, f"shape = (x.shape[0], {spec.tail.channels}{spec.each('v_#')})", *spec.allocation()]
