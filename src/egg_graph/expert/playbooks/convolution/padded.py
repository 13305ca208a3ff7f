"""Implicit GEMM for few input channels, over a copy of the input that needs no test at any of its elements.

One pass over x, which is small against the output, makes the copy [B, GROUPS, *padded pixels, WIDTH]: zeros around
it, channels innermost and filled up to WIDTH, a power of two, rounded to TF32. Taps and channels are one index of the
sum, k = tap * WIDTH + c. So an element of the product's left side lies at base[row] + offset[k], WIDTH of them side
by side: loads are 16 bytes wide, go to shared memory without passing through registers, and need no bounds.

A row stands for RUN neighbouring outputs of the last dimension, and the product has RUN columns for each channel: the
filter shifted by as many strides, zeros around it (a band). With few output channels tensor cores are idle and shared
memory is the limit: a run of outputs shares the input that its windows overlap in. An input that is infinite or NaN
reaches the whole run, for zero times it is NaN.

A tile lies inside one sample, so that its positions are neighbours in memory and its stores are wide. Where what the
tail computes is reduced over all pixels it is not stored at all: each tile leaves its part (`pixel_parts`).

Where it is reduced over windows of pixels (a maximum pooling, a minimum over the depth), a program walks the places of
the window and keeps the running result: V_d is then the number of windows along dimension d. Neighbours of a line that
lie in one window lie in one run.
"""

from egg_graph.expert.codegen.launch import call, kernel
from egg_graph.expert.playbooks.convolution import moments
from egg_graph.expert.playbooks.convolution.pixel_parts import allocated_parts, joined_parts, parts_of_tile
from egg_graph.expert.playbooks.convolution.spec import Spec
from egg_graph.expert.playbooks.convolution.tail import Dimension, Tail, Tile
from egg_graph.expert.playbooks.convolution.window import JOINED, MISREDUCED_RUN, NEUTRAL, WHOLE
from egg_graph.expert.playbooks.knobs import power_of_two
from egg_graph.schema import Knob, StageName

LEAST_WIDTH = 4
"""Channels that fill 16 bytes in fp32."""
LARGEST_TILE = 128 * 128
HELD_TILE = 64 * 128
"""Numbers of a tile that 4 warps hold as a window's running results beside the sums."""


def padded_width(channels: int) -> int:
    """Return how many channels the copy has for these of a group."""
    return power_of_two(channels, LEAST_WIDTH)


def padded_tile(rank: int) -> Tile:
    """Return how the kernel's tile addresses the output: channels times positions."""
    row, col = "in_channels[:, None]", "in_places[None, :]"
    spatial = (Dimension(f"o_{d}[None, :]", col, f"V_{d}") for d in range(rank))
    return Tile((Dimension("sample", "", "BATCH"), Dimension("channel[:, None]", row, "(GROUPS * N)"), *spatial), 0)


def padded_config(channels_out: int, tail: Tail) -> dict[str, Knob]:
    """Choose 128 rows times all channels of the output up to 128, and runs that fill up to 64 columns.

    A tail that reduces has shorter runs, or longer ones where channels are few and no window is walked.
    """
    channels = power_of_two(channels_out, 16, 128)
    if not tail.reduces:
        run = max(1, 64 // channels)
        return _config(128, channels, 8 if tail.parts and run == MISREDUCED_RUN else run, 8 if channels > 64 else 4)
    run = max(tail.window.along_line if tail.window else 1, 2 if channels <= 64 else 1)
    if channels == 16 and tail.window is None:
        run = 8
    rows = 64 if channels >= 64 and tail.pixels else min(128, LARGEST_TILE // (channels * run))
    held = (len(tail.pixels) > 1 and run < 8) or (tail.window is not None and rows * channels * run > HELD_TILE)
    return _config(rows, channels, run, 8 if channels > 64 or held else 4)


def _config(rows: int, channels: int, run: int, num_warps: int) -> dict[str, Knob]:
    return {
        "BLOCK_M": rows, "BLOCK_N": channels, "BLOCK_K": 32, "RUN": run, "num_warps": num_warps, "num_stages": 3,
    }  # fmt: skip


def padded_space(config: dict[str, Knob], tail: Tail) -> dict[StageName, dict[str, tuple[Knob, ...]]]:
    """Return the values that each tuning stage may try for these knobs, the likely winners first."""
    channels, least = int(config["BLOCK_N"]), tail.window.along_line if tail.window else 1
    sums = tail.reduces or tail.parts is not None
    fitting = (run for run in (2, 1, 4, 8) if run == least or (run > least and run * channels <= 128))
    return {
        "parallel_mapping": {"num_warps": (4, 8)},
        "tensor_tiling": {
            "RUN": tuple(run for run in fitting if run != MISREDUCED_RUN or run == least or not sums),
            "BLOCK_M": (128, 256, 64),
            "BLOCK_K": (32, 16, 64),
            "BLOCK_N": tuple(n for n in (channels, channels // 2, channels // 4) if n >= 16),
        },
        "memory_optimization": {"num_stages": (3, 2, 4)},
    }


def write_padded(spec: Spec) -> str:
    """Write the kernel."""
    names = ["N", "GROUPS", *spec.gap, "WIDTH", "REACH", "UNIT", *spec.lines("SIZE_#"), *spec.geometry]
    arguments = [
        "x_ptr", "w_ptr", "out_ptr", *moments.parameter(spec), *spec.tail.parameters,
        *(f"{name}: tl.constexpr" for name in (*names, "BLOCK_M", "BLOCK_N", "BLOCK_K", "RUN")),
    ]  # fmt: skip
    lines = [*_rows(spec), *(_walk(spec) if spec.tail.window else _loop(spec)), *_places(spec), *spec.tail.lines]
    lines += parts_of_tile(spec) if spec.tail.pixels else stored(spec)
    doc = f"{spec.tail.formula}: BLOCK_M runs of outputs times BLOCK_N channels a program. Sums are in fp32."
    return kernel(f"{spec.name}_kernel", arguments, doc, lines)


def _rows(spec: Spec) -> list[str]:
    """Decode the program's number, and where every row's first tap lies; a row beyond the last reads what that reads.

    Tiles of channels that read the same input are neighbours.
    """
    last = spec.rank - 1
    across = [*(f"V_{d}" for d in range(last)), "RUNS"]
    apart = [f"{_window_size(spec, d)} * S_{d}" for d in range(last)]
    lines = [f"V_{d}: tl.constexpr = {_windows(spec, d)}" for d in range(spec.rank)]
    return [
        *lines,
        f"RUNS: tl.constexpr = (V_{last} * {_window_size(spec, last)} + RUN - 1) // RUN",
        f"ROWS: tl.constexpr = {' * '.join(across)}",
        "tiles_m: tl.constexpr = (ROWS + BLOCK_M - 1) // BLOCK_M",
        "tiles_n: tl.constexpr = (N + BLOCK_N - 1) // BLOCK_N",
        "first_channel = tl.program_id(0) % tiles_n * BLOCK_N",
        "tile = tl.program_id(0) // tiles_n",
        "plane = (tile // tiles_m).to(tl.int64)",
        "sample, group = plane // GROUPS, plane % GROUPS",
        "row = tl.minimum(tile % tiles_m * BLOCK_M + tl.arange(0, BLOCK_M), ROWS - 1)",
        *decoded("row", "j", across),
        f"base = {pixel(spec, [*(f'j_{d} * ({apart[d]})' for d in range(last)), f'j_{last} * (RUN * S_{last})'])}",
        f"x_rows = x_ptr + plane * ({spec.each('SIZE_#', ' * ')} * WIDTH) + (base * WIDTH)[:, None]",
        f"K: tl.constexpr = {' * '.join([*(f'T_{d}' for d in range(last)), 'REACH'])} * WIDTH",
        "cols = (group * (tiles_n * BLOCK_N) + first_channel) * RUN + tl.arange(0, BLOCK_N * RUN)",
        "w_cols = w_ptr + (cols * K)[None, :]",
        "in_channels = first_channel + tl.arange(0, BLOCK_N) < N",
        "channel = group * N + first_channel + tl.arange(0, BLOCK_N)",
    ]


def _windows(spec: Spec, d: int) -> str:
    """Write how many windows there are along a dimension."""
    size = 1 if spec.tail.window is None else spec.tail.window.sizes[d]
    return "1" if size == WHOLE else f"OUT_{d} // {size}" if size > 1 else f"OUT_{d}"


def _window_size(spec: Spec, d: int) -> str:
    """Write the pixels of a window along a dimension."""
    size = 1 if spec.tail.window is None else spec.tail.window.sizes[d]
    return f"OUT_{d}" if size == WHOLE else str(size)


def decoded(index: str, name: str, sizes: list[str]) -> list[str]:
    """Decode an index into one for each dimension."""
    lines = []
    for d, size in enumerate(sizes):
        inner = " * ".join(sizes[d + 1 :])
        text = f"{index} // ({inner})" if inner else index
        lines.append(f"{name}_{d} = {text} % {size}" if d else f"{name}_{d} = {text}")
    return lines


def pixel(spec: Spec, coordinates: list[str]) -> str:
    """Write the number of a pixel of the copy from its coordinates."""
    text = coordinates[0]
    for d in range(1, spec.rank):
        text = f"({text}) * SIZE_{d} + {coordinates[d]}"
    return text


def _walk(spec: Spec) -> list[str]:
    """Reduce what the tail computes over the places of a window, the last dimension's inside a run."""
    window, last = spec.tail.window, spec.rank - 1
    assert window is not None
    sizes = [_window_size(spec, d) for d in range(last)]
    offset = pixel(spec, [*(f"at_{d} * S_{d}" for d in range(last)), "0"])
    lines = [
        f"pooled = tl.full((BLOCK_N, BLOCK_M * RUN), {NEUTRAL[window.kind]}, dtype=tl.float32)",
        f"for place in range(0, {' * '.join(sizes) or '1'}):",
        *(f"    {line}" for line in decoded("place", "at", sizes)),
        *(f"    {line}" for line in _loop(spec, f" + ({offset}) * WIDTH" if sizes else "")),
        *(f"    {line}" for line in spec.tail.walked),
        f"    pooled = {JOINED[window.kind].format('pooled', spec.tail.joined)}",
    ]
    if window.along_line > 1:
        size, reduce = window.along_line, {"amax": "max", "amin": "min"}.get(window.kind, "sum")
        lines += [
            f"pooled = tl.reshape(pooled, (BLOCK_N, BLOCK_M * RUN // {size}, {size}))",
            f"pooled = tl.{reduce}(pooled, axis=2)",
        ]
    if window.kind == "mean":
        lines.append(f"pooled = pooled / ({spec.each('OUT_#', ' * ')} // ({spec.each('V_#', ' * ')}))")
    return lines


def _loop(spec: Spec, start: str = "") -> list[str]:
    """Sum over taps and channels, and turn the sums to channels times positions.

    Args:
        spec: The convolution.
        start: Added to where the first tap lies.
    """
    last = spec.rank - 1
    reached = [*(f"T_{d}" for d in range(last)), "REACH"]
    offset = pixel(spec, [*(f"tap_{d} * D_{d}" for d in range(last)), f"tap_{last} * UNIT"])
    return [
        *summed(spec, "BLOCK_N * RUN", reached, offset, start),
        "if RUN == 1:  # from here on: channels times positions",
        "    acc = tl.trans(acc)",
        "else:",
        "    acc = tl.permute(tl.reshape(acc, (BLOCK_M, BLOCK_N, RUN)), (1, 0, 2))",
        "    acc = tl.reshape(acc, (BLOCK_N, BLOCK_M * RUN))",
    ]


def summed(spec: Spec, columns: str, reached: list[str], offset: str, start: str = "") -> list[str]:
    """Sum over taps and channels; a summand beyond the last is masked, for x may hold what times zero is no zero.

    Args:
        spec: The convolution.
        columns: How many the product has.
        reached: Number of taps along each dimension.
        offset: From the pixel of a row's first tap to that of the tap at hand.
        start: Added to where the first tap lies.
    """
    return [
        f"acc = tl.zeros((BLOCK_M, {columns}), dtype=tl.float32)",
        "for start in range(0, K, BLOCK_K):",
        "    k = start + tl.arange(0, BLOCK_K)",
        "    tap = k // WIDTH",
        *(f"    {line}" for line in decoded("tap", "tap", reached)),
        f"    offset = ({offset}) * WIDTH + k % WIDTH{start}",
        "    if K % BLOCK_K == 0:",
        "        a = tl.load(x_rows + offset[None, :])",
        "        b = tl.load(w_cols + k[:, None])",
        "    else:",
        "        a = tl.load(x_rows + offset[None, :], mask=(k < K)[None, :], other=0.0)",
        "        b = tl.load(w_cols + k[:, None], mask=(k < K)[:, None], other=0.0)",
        f"    acc = tl.dot(a, b, acc{spec.precision})",
    ]


def _places(spec: Spec) -> list[str]:
    """Compute the coordinates and offsets of the tile's results: of every output, or of every window."""
    last = spec.rank - 1
    own = f"(RUN // {_window_size(spec, last)})"
    return [
        f"OUT_PIXELS: tl.constexpr = {spec.each('V_#', ' * ')}",
        f"place = tile % tiles_m * (BLOCK_M * {own}) + tl.arange(0, BLOCK_M * {own})",
        f"in_places = place < ROWS * {own}",
        *decoded("place", "o", [*(f"V_{d}" for d in range(last)), f"(RUNS * {own})"]),
        f"if V_{last} % {own} != 0:  # then the last run of a line ends beyond it",
        f"    in_places = in_places & (o_{last} < V_{last})",
        f"    place = place // (RUNS * {own}) * V_{last} + o_{last}",
        "out_offsets = sample * (GROUPS * N * OUT_PIXELS) + ((channel * OUT_PIXELS)[:, None] + place[None, :])",
        "inside = in_channels[:, None] & in_places[None, :]",
    ]


def stored(spec: Spec, part: tuple[str, str] = ("tile % tiles_m", "tiles_m")) -> list[str]:
    """Store what the tail computed.

    Args:
        spec: The convolution.
        part: Number of the part of a sample that the tile leaves moments of, and how many parts there are.
    """
    lines = []
    if spec.tail.without_channels:
        lines += ["out_offsets = (sample * OUT_PIXELS + place)[None, :]", "inside = in_places[None, :]"]
    lines.append(f"tl.store({spec.target}, {spec.tail.result}.to(out_ptr.dtype.element_ty), mask=inside)")
    return [*lines, *(_moments(spec, *part) if spec.tail.parts else [])]


def _moments(spec: Spec, number: str, parts: str) -> list[str]:
    """Store the moments of the tile, which lies in one sample."""
    channel = "sample * (GROUPS * N) + group * N + first_channel + tl.arange(0, BLOCK_N)"
    part, count = f"({channel}) * {parts} + {number}", "tl.sum(in_places.to(tl.float32), axis=0)"
    return moments.stored_moments(spec, part, "inside", count, "in_channels", axis=1)


def _output_shape(spec: Spec) -> str:
    """Write the wrapper's line that tells the output's shape."""
    dropped = spec.tail.window.dropped if spec.tail.window else ()
    sizes = ", ".join(f"v_{d}" for d in range(spec.rank) if d not in dropped)
    return f"shape = (x.shape[0], {spec.tail.channels}{sizes})"


def write_padded_wrapper(spec: Spec) -> str:
    """Write the function that copies the input, packs the filter, allocates the output and launches.

    Along the last dimension a run reads REACH numbers, UNIT pixels apart.
    """
    last = spec.rank - 1
    sizes = [_window_size(spec, d).lower() for d in range(spec.rank)]
    places = " * ".join([*(f"v_{d}" for d in range(last)), f"triton.cdiv(v_{last} * {sizes[last]}, run)"])
    needed = f"(triton.cdiv(out_{last}, run) * run - 1) * s_{last} + d_{last} * (weight_shape[-1] - 1) + 1"
    lines = [
        *spec.wrapper_head(),
        "groups = x.shape[1] // weight.shape[1]",
        *spec.numbered_channels("weight.shape[0] // groups"),
        f"width = max({LEAST_WIDTH}, triton.next_power_of_2(weight.shape[1]))",
        f"run = {spec.knob('RUN')}",
        f"unit = d_{last} if run == 1 else 1",
        f"reach = ((run - 1) * s_{last} + d_{last} * (weight_shape[-1] - 1)) // unit + 1",
        *(f"v_{d} = {_windows(spec, d).lower()}" for d in range(spec.rank)),
        *(f"size_{d} = x.shape[{d + 2}] + 2 * p_{d}" for d in range(last)),
        f"size_{last} = max(x.shape[-1] + 2 * p_{last}, {needed})",
        *([] if spec.tail.pixels else [_output_shape(spec), *spec.allocation()]),
        f"pads, sizes = ({spec.each('p_#')},), ({spec.each('size_#')},)",
        f"x = padded_channels_last(x, groups, width, pads, sizes, {spec.round_tf32})",
        *spec.packed(
            "pack_band",
            ["groups", spec.knob("BLOCK_N"), "width", "run", "reach", "unit", f"s_{last}", f"d_{last}",
             str(spec.round_tf32)],
        ),
        f"tiles_m = triton.cdiv({places}, {spec.knob('BLOCK_M')})",
        *(allocated_parts(spec) if spec.tail.pixels else []),
        *moments.allocated_moments(spec, "x_shape[0]", "tiles_m"),
        f"tiles = tiles_m * triton.cdiv(N, {spec.knob('BLOCK_N')})",
    ]  # fmt: skip
    arguments = [
        "x", "weight", "out", *moments.argument(spec), *spec.tail.arguments, "N=N", "GROUPS=groups",
        *spec.gap_argument, "WIDTH=width",
        "REACH=reach", "UNIT=unit",
        *spec.lines("SIZE_#=size_#"), *spec.geometry_arguments,
        *(f"{knob}={spec.knob(knob)}" for knob in spec.config),
    ]  # fmt: skip
    lines += call(f"{spec.name}_kernel[(x_shape[0] * groups * tiles,)]", arguments, indent=4)
    lines += joined_parts(spec) if spec.tail.pixels else [moments.returned(spec)]
    return spec.wrapper(lines)
