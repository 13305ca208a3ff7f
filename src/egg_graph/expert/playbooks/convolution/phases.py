"""A transposed convolution in which one program computes all phases of the places that it reads.

The outputs of one residue modulo the stride are a phase, and a place of the input makes one output of each. All phases
read the same few inputs, `REACH_d` from `LOW_d` on along dimension d, each through taps of its own. So a row of the
product stands for one place, and its columns are phases times channels: zeros in the packed filter where a phase has no
tap. That multiplies some zeros, but reads every input once for all phases, fills the columns of the tensor cores where
channels are few, and stores whole lines: the phases of the last dimension are interleaved before.

Phases times channels are at most `MOST_COLUMNS` columns. Beyond, a program has the phases of the trailing dimensions,
and a residue of its own along the others. A stride that is no power of two is filled up to one with idle phases.

The input is the padded copy that `padded` describes. Infinite or NaN inputs reach the places beside them, too: zero
times them is NaN. The tail runs on one line of phases after the other, as all of them would not fit in registers.
"""

from math import prod

from egg_graph.expert.codegen.launch import call, halved, kernel
from egg_graph.expert.codegen.phases import phases_by_program
from egg_graph.expert.playbooks.convolution import moments
from egg_graph.expert.playbooks.convolution.match import Convolution, reach_of
from egg_graph.expert.playbooks.convolution.padded import LEAST_WIDTH, decoded, pixel, stored, summed
from egg_graph.expert.playbooks.convolution.spec import Spec
from egg_graph.expert.playbooks.convolution.tail import Tail
from egg_graph.expert.playbooks.convolution.window import MISREDUCED_RUN
from egg_graph.expert.playbooks.knobs import power_of_two
from egg_graph.schema import Knob, StageName

MOST_COLUMNS = 128
"""Phases times channels of the output that one program computes (H200: twice as many, with 8 warps, took up to 6 %
longer on levels 1/73 and 2/15 of KernelBench and as long on 1/81)."""
CHANNELS_BEFORE_PHASES = 16
"""A program has this many channels, where there are as many, before it has the phases of one more dimension."""
STEP = 32
"""Summands of one step of a program's loop. Where one step takes all of them, half of `MOST_COLUMNS` is faster (H200:
by 10 % on level 2/60 of KernelBench)."""
LEAST_CHANNELS = 8
"""That a program has at least, beside two phases: tensor cores take 16 columns."""


def work_overhead(convolution: Convolution) -> float:
    """Return products computed over products that count, at full shape: the others are with a phase's missing taps."""
    counts = (power_of_two(stride[0], 1) for stride in convolution.stride)
    return prod(reach_of(convolution)) * prod(counts) / prod(taps[0] for taps in convolution.taps)


def phases_config(
    strides: tuple[int, ...], channels_out: int, summands: int, tail: Tail, *, all_digits: bool
) -> dict[str, Knob]:
    """Choose 128 places, and as many channels as fit beside the phases; all of them where the tail reduces over them.

    Args:
        strides: By dimension.
        channels_out: Of one group.
        summands: Numbers of the input that the phases of a place read.
        tail: What follows.
        all_digits: Whether products with all digits of fp32 need registers, too.
    """
    channels = power_of_two(channels_out, LEAST_CHANNELS)
    block_n = channels if tail.holds_channels else min(channels, CHANNELS_BEFORE_PHASES)
    held = prod(phases_by_program(strides, block_n, MOST_COLUMNS, avoided_run(tail))[1])
    most = MOST_COLUMNS if summands > STEP else MOST_COLUMNS // 2
    block_n = block_n if tail.holds_channels else max(LEAST_CHANNELS, min(channels, most // held))
    return {
        "BLOCK_M": 64 if all_digits else 128, "BLOCK_N": block_n, "BLOCK_K": STEP // 2 if summands % STEP else STEP,
        "num_warps": 4 if held * block_n <= MOST_COLUMNS else 8, "num_stages": 2,
    }  # fmt: skip


def phases_space(config: dict[str, Knob]) -> dict[StageName, dict[str, tuple[Knob, ...]]]:
    """Return the values that each tuning stage may try for these knobs, the likely winners first."""
    block_n, num_warps = int(config["BLOCK_N"]), int(config["num_warps"])
    return {
        "parallel_mapping": {"num_warps": (num_warps, 12 - num_warps)},
        "tensor_tiling": {
            "BLOCK_M": (128, 64),
            "BLOCK_K": (32, 16),
            "BLOCK_N": tuple(n for n in (block_n, block_n // 2) if n >= LEAST_CHANNELS),
        },
        "memory_optimization": {"num_stages": (2, 3, 1)},
    }


def avoided_run(tail: Tail) -> int:
    """Return how many phases of the last dimension a tile must not have: Triton would reduce it wrongly; 0 for none."""
    return MISREDUCED_RUN if tail.holds_channels or tail.parts is not None else 0


def write_phases(spec: Spec) -> str:
    """Write the kernel, and the function that runs the tail on its lines of phases."""
    arguments = [
        "x_ptr", "w_ptr", "out_ptr", *moments.parameter(spec), *spec.tail.parameters,
        *(f"{name}: tl.constexpr" for name in (*_constants(spec), "WIDTH", *spec.lines("REACH_#"))),
        *(f"{name}: tl.constexpr" for name in (*spec.lines("SIZE_#"), "BLOCK_M", "BLOCK_N", "BLOCK_K")),
    ]  # fmt: skip
    offset = pixel(spec, spec.lines("tap_#"))
    lines = [*_rows(spec), *summed(spec, "JOINED * BLOCK_N", spec.lines("REACH_#"), offset)]
    lines += _store(spec, "acc", "0", _lines(spec))
    doc = f"{spec.tail.formula}: BLOCK_M places, their phases, BLOCK_N channels a program. Sums are in fp32."
    return "\n\n".join((_write_store(spec), kernel(f"{spec.name}_kernel", arguments, doc, lines)))


def _constants(spec: Spec) -> list[str]:
    """Along dimension d: V_d outputs, J_d places of S_d each, the first R_d ahead; W_d phases joined, or A_d apart."""
    return [
        "N",
        "GROUPS",
        *spec.gap,
        *(name for text in ("J_#", "V_#", "S_#", "R_#", "A_#", "W_#") for name in spec.lines(text)),
    ]


def _lines(spec: Spec) -> str:
    """Write the number of phases ahead of the last dimension, each of which the tail sees alone."""
    return " * ".join(spec.lines("W_#")[:-1]) or "1"


def _rows(spec: Spec) -> list[str]:
    """Decode the program's number, and where every row's inputs begin; a row beyond the last reads what that reads.

    Tiles that read the same input are neighbours.
    """
    return [
        f"JOINED: tl.constexpr = {spec.each('W_#', ' * ')}",
        f"APART: tl.constexpr = {spec.each('A_#', ' * ')}",
        f"ROWS: tl.constexpr = {spec.each('J_#', ' * ')}",
        "tiles_m: tl.constexpr = (ROWS + BLOCK_M - 1) // BLOCK_M",
        "tiles_n: tl.constexpr = (N + BLOCK_N - 1) // BLOCK_N",
        "tile = tl.program_id(0)",
        "tile_n, own = tile % tiles_n, tile // tiles_n % APART",
        "tile = tile // (tiles_n * APART)",
        "plane, tile_m = (tile // tiles_m).to(tl.int64), tile % tiles_m",
        "sample, group = plane // GROUPS, plane % GROUPS",
        "row = tl.minimum(tile_m * BLOCK_M + tl.arange(0, BLOCK_M), ROWS - 1)",
        *decoded("row", "j", spec.lines("J_#")),
        f"base = {pixel(spec, spec.lines('j_#'))}",
        f"x_rows = x_ptr + plane * ({spec.each('SIZE_#', ' * ')} * WIDTH) + (base * WIDTH)[:, None]",
        f"K: tl.constexpr = {spec.each('REACH_#', ' * ')} * WIDTH",
        "first = ((own * GROUPS + group) * tiles_n + tile_n) * (JOINED * BLOCK_N)",
        "w_cols = w_ptr + ((first + tl.arange(0, JOINED * BLOCK_N)) * K)[None, :]",
    ]


def _store(spec: Spec, sums: str, line: str, lines: str) -> list[str]:
    """Call the function that `_write_store` writes, for so many lines of phases from one on."""
    arguments = [
        sums, "out_ptr", *moments.parameter(spec), *spec.tail.parameters, "sample", "group", "tile_n", "tile_m",
        "own", line, *_constants(spec), "BLOCK_M", "BLOCK_N", lines,
    ]  # fmt: skip
    return call(f"{spec.name}_store", arguments)


def _write_store(spec: Spec) -> str:
    """Write the function that runs the tail on LINES lines of phases from one on, and stores them."""
    arguments = [
        "acc", "out_ptr", *moments.parameter(spec), *spec.tail.parameters, "sample", "group", "tile_n", "tile_m",
        "own", "line", *(f"{name}: tl.constexpr" for name in (*_constants(spec), "BLOCK_M", "BLOCK_N", "LINES")),
    ]  # fmt: skip
    across = f"W_{spec.rank - 1}"
    leaf = [
        f"acc = tl.permute(tl.reshape(acc, (BLOCK_M, {across}, BLOCK_N)), (2, 0, 1))",
        f"acc = tl.reshape(acc, (BLOCK_N, BLOCK_M * {across}))  # channels times positions",
        *_places(spec),
        *spec.tail.lines,
        *stored(spec, _part(spec)),
    ]
    left = _store(spec, "left", "line", "LINES // 2")
    right = _store(spec, "right", "line + LINES // 2", "LINES // 2")
    lines = halved("LINES", ["left, right = column_halves(acc)", *left, *right], leaf)
    doc = "Tail and store of a tile, one line of phases after the other: all of them would not fit in registers."
    return kernel(f"{spec.name}_store", arguments, doc, lines)


def _places(spec: Spec) -> list[str]:
    """Compute the coordinates and offsets of a line's results."""
    last, lines = spec.rank - 1, []
    for d in range(last):
        inner = {name: "".join(f" * {name}_{e}" for e in range(d + 1, spec.rank)) for name in "AJ"}
        behind = " * ".join(f"W_{e}" for e in range(d + 1, last)) or "1"
        lines += [
            f"phase_{d} = own // (1{inner['A']}) % A_{d} + line // ({behind}) % W_{d}",
            f"o_{d} = at // (W_{last}{inner['J']}) % J_{d} * S_{d} + phase_{d} - R_{d}",
            f"in_places = in_places & (phase_{d} < S_{d}) & (o_{d} >= 0) & (o_{d} < V_{d})",
        ]
    place = "o_0"
    for d in range(1, spec.rank):
        place = f"({place}) * V_{d} + o_{d}"
    return [
        f"at = tile_m * (BLOCK_M * W_{last}) + tl.arange(0, BLOCK_M * W_{last})",
        f"in_places = at < {spec.each('J_#', ' * ')} * W_{last}",
        *lines,
        f"o_{last} = at % (J_{last} * W_{last})",
        f"if S_{last} != W_{last}:",
        f"    in_places = in_places & (o_{last} % W_{last} < S_{last})",
        f"    o_{last} = o_{last} // W_{last} * S_{last} + o_{last} % W_{last}",
        f"o_{last} = o_{last} - R_{last}",
        f"in_places = in_places & (o_{last} >= 0) & (o_{last} < V_{last})",
        f"OUT_PIXELS: tl.constexpr = {spec.each('V_#', ' * ')}",
        f"place = {place}",
        "first_channel = tile_n * BLOCK_N",
        "in_channels = first_channel + tl.arange(0, BLOCK_N) < N",
        "channel = group * N + first_channel + tl.arange(0, BLOCK_N)",
        "out_offsets = sample * (GROUPS * N * OUT_PIXELS) + ((channel * OUT_PIXELS)[:, None] + place[None, :])",
        "inside = in_channels[:, None] & in_places[None, :]",
    ]


def _part(spec: Spec) -> tuple[str, str]:
    """Write the number of the part of a sample that a line leaves moments of, and how many parts there are."""
    tiles, lines = f"(({spec.each('J_#', ' * ')} + BLOCK_M - 1) // BLOCK_M)", _lines(spec)
    return f"((own * ({lines}) + line) * {tiles} + tile_m)", f"({spec.each('A_#', ' * ')} * {lines} * {tiles})"


def reached(spec: Spec, name: str, places: str, shifts: str) -> list[str]:
    """Write the wrapper's lines that tell which inputs a place reads, and how large the padded copy is.

    Along a dimension, tap t of residue q reads the input (q + p - t d) / s places from the place's own.

    Args:
        spec: The convolution.
        name: Of the variable for the number of places along a dimension, with `#` as that.
        places: That number.
        shifts: By how much places may begin ahead of the output.
    """
    first = f"r_#, low_#, reach_# = reached_inputs(s_#, p_#, d_#, weight_shape[@], {shifts})"
    lines = [first, "p_# -= r_#", f"{name} = {places}", f"size_# = max(x.shape[@] - low_#, {name} + reach_# - 1)"]
    return [line.replace("#", str(d)).replace("@", str(d + 2)) for line in lines for d in range(spec.rank)]


def padded_input(spec: Spec, groups: str) -> list[str]:
    """Write the wrapper's lines that copy the input."""
    return [
        f"pads, sizes = ({spec.each('-low_#')},), ({spec.each('size_#')},)",
        f"x = padded_channels_last(x, {groups}, width, pads, sizes, {spec.round_tf32})",
    ]


def packed_filter(spec: Spec, block_n: str, apart: str, joined: str) -> list[str]:
    """Write the wrapper's lines that pack the filter.

    Args:
        spec: The convolution.
        block_n: Channels that a program has.
        apart: By dimension, phases that are products of their own.
        joined: By dimension, phases that are columns of one product.
    """
    numbers = [f"({spec.each(f'{name}_#')},)" for name in ("s", "p", "d", "low", "reach")]
    return spec.packed("pack_phases", ["groups", block_n, "width", apart, joined, *numbers, str(spec.round_tf32)])


def write_phases_wrapper(spec: Spec) -> str:
    """Write the function that copies the input, packs the filter, allocates the output and launches."""
    tiles = f"triton.cdiv({spec.each('j_#', ' * ')}, {spec.knob('BLOCK_M')})"
    limits = f"{MOST_COLUMNS}, {avoided_run(spec.tail)}"
    lines = [
        *spec.wrapper_head(),
        "N = weight.shape[1]",
        *([f"block_n = max({LEAST_CHANNELS}, triton.next_power_of_2(N))"] if spec.tail.holds_channels else []),
        f"width = max({LEAST_WIDTH}, triton.next_power_of_2(weight.shape[0] // groups))",
        f"apart, joined = phases_by_program(({spec.each('s_#')},), {spec.knob('BLOCK_N')}, {limits})",
        *reached(spec, "j_#", "triton.cdiv(out_# + r_#, s_#)", "0, p_# % s_#"),
        f"shape = (x.shape[0], {spec.tail.channels}{spec.each('out_#')})",
        *spec.allocation(),
        *padded_input(spec, "groups"),
        *packed_filter(spec, spec.knob("BLOCK_N"), "apart", "joined"),
        f"tiles_m = {tiles}",
        *moments.allocated_moments(spec, "x_shape[0]", "prod(apart) * prod(joined[:-1]) * tiles_m"),
        f"tiles = prod(apart) * tiles_m * triton.cdiv(N, {spec.knob('BLOCK_N')})",
    ]
    arguments = [
        "x", "weight", "out", *moments.argument(spec), *spec.tail.arguments, "N=N", "GROUPS=groups",
        *spec.gap_argument, *spec.lines("J_#=j_#"), *spec.lines("V_#=out_#"), *spec.lines("S_#=s_#"),
        *spec.lines("R_#=r_#"), *spec.lines("A_#=apart[#]"), *spec.lines("W_#=joined[#]"), "WIDTH=width",
        *spec.lines("REACH_#=reach_#"), *spec.lines("SIZE_#=size_#"),
        *(f"{knob}={spec.knob(knob)}" for knob in spec.config),
    ]  # fmt: skip
    lines += [*call(f"{spec.name}_kernel[(x_shape[0] * groups * tiles,)]", arguments, indent=4), moments.returned(spec)]
    return spec.wrapper(lines)
