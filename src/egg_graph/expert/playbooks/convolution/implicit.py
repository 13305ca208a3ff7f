"""Implicit GEMM: rows are output positions, columns output channels, and the sum runs over taps and input channels.

One generator for one, two and three dimensions, plain and transposed. Two ways through the sum:

- `flat`, for few input channels: channel and tap together are one index, so that 3 channels times 27 taps fill 96
  summands, and the filter is read as it lies;
- blocked: BLOCK_K channels of one tap at a time, from a filter that a pass of its own packed with channels innermost.
  Channels may lie in planes, as PyTorch keeps them, or innermost after a pass that moves them there and rounds them.

Output positions of one residue modulo the stride of a transposed convolution form a dense convolution of their own (a
phase) with its own taps: every STEP-th tap from the first that reaches them. No zero is multiplied. Where the last
stride is 2 a program sums both phases along the last dimension and interleaves them, so that its stores leave no gaps.

The tail runs on pieces of the columns, one after the other: a whole tile of sums fills half of the registers, and what
an activation needs for each of them at the same time would spill. A tail that reduces over the channels has them all.
"""

from egg_graph.expert.codegen.launch import call, halved, kernel
from egg_graph.expert.playbooks.convolution import moments
from egg_graph.expert.playbooks.convolution.spec import Spec
from egg_graph.expert.playbooks.convolution.tail import Dimension, Tile

SHORT = 16
"""Rows of the output longer than this are computed at an even length: one position more at most, so that the compiler
knows pairs of neighbours and lets neighbouring threads read and write neighbours."""

PIECE = 32
"""Columns of the sums that the tail takes at a time."""


def implicit_tile(rank: int) -> Tile:
    """Return how the kernel's tile addresses the output."""
    row, col = "in_rows[:, None]", "in_cols[None, :]"
    spatial = (Dimension(f"o_{d}[:, None]", row, f"OUT_{d}") for d in range(rank))
    return Tile(
        (Dimension("sample[:, None]", row, "BATCH"), Dimension("channel[None, :]", col, "(GROUPS * N)"), *spatial), 1
    )


def write_implicit(spec: Spec) -> str:
    """Write the kernel."""
    arguments = [
        "x_ptr", "w_ptr", "out_ptr", *moments.parameter(spec), *spec.tail.parameters, "BATCH",
        *(["C"] if spec.any_channels else []),
        *(f"{name}: tl.constexpr" for name in (*_channels(spec), "N", "GROUPS", *spec.gap, *spec.geometry)),
        *(f"{name}: tl.constexpr" for name in spec.lines("J_#")),
        *(["PHASES: tl.constexpr"] if spec.transposed else []),
        *(f"{knob}: tl.constexpr" for knob in ("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M")),
    ]  # fmt: skip
    lines = [*_place(spec), *_bases(spec), *_sums(spec), *_store_place(spec)]
    pieces = f"BLOCK_N // {PIECE} if BLOCK_N > {PIECE} else 1"
    lines.append(f"PIECES: tl.constexpr = {'1' if spec.tail.holds_channels else pieces}")
    lines += _store(spec, "tile_n * BLOCK_N")
    doc = f"{spec.tail.formula}: BLOCK_M output positions times BLOCK_N channels a program. Sums are in fp32."
    return "\n\n".join((_write_store(spec), kernel(f"{spec.name}_kernel", arguments, doc, lines)))


def _channels(spec: Spec) -> list[str]:
    """Return the constexpr parameters that tell the channels: their number, or whether blocks of them are whole."""
    return ["WHOLE_C"] if spec.any_channels else ["C"]


def _sums_passed(spec: Spec) -> list[str]:
    """The sums of a tile; where phases are interleaved, those of even positions first."""
    return ["even", "acc"] if spec.transposed else ["acc"]


def _store(spec: Spec, col: str, sums: str = "#", pieces: str = "PIECES") -> list[str]:
    """Call the function that `_write_store` writes, for the columns from `col` on."""
    constants = ["N", "GROUPS", *spec.gap, *spec.lines("OUT_#"), *(["PHASES"] if spec.transposed else [])]
    arguments = [
        *(sums.replace("#", name) for name in _sums_passed(spec)), "out_ptr", *moments.passed(spec),
        *spec.tail.parameters, "sample", "place", *spec.lines("o_#"), "in_rows", "group", col, "BATCH", *constants,
        pieces,
    ]  # fmt: skip
    return call(f"{spec.name}_store", arguments)


def _write_store(spec: Spec) -> str:
    """Write the function that runs the tail on PIECES pieces of the columns and stores them."""
    constants = ["N", "GROUPS", *spec.gap, *spec.lines("OUT_#"), *(["PHASES"] if spec.transposed else []), "PIECES"]
    arguments = [
        *_sums_passed(spec), "out_ptr", *moments.passed(spec), *spec.tail.parameters, "sample", "place",
        *spec.lines("o_#"), "in_rows", "group", "col", "BATCH", *(f"{name}: tl.constexpr" for name in constants),
    ]  # fmt: skip
    halves = [f"{name}_left, {name}_right = column_halves({name})" for name in _sums_passed(spec)]
    interleave = [
        "if PHASES == 2:",
        "    acc = tl.reshape(tl.permute(tl.join(even, acc), (0, 2, 1)), (2 * acc.shape[0], acc.shape[1]))",
    ]
    target = spec.target.replace("sample", "sample[:, None]")
    all_channels = ["out_offsets = (sample * OUT_PIXELS + place)[:, None]", "inside = in_rows[:, None]"]
    leaf = [
        *(interleave if spec.transposed else []),
        "cols = col + tl.arange(0, acc.shape[1])",
        "in_cols = cols < N",
        "channel = group * N + cols",
        f"OUT_PIXELS: tl.constexpr = {spec.each('OUT_#', ' * ')}",
        "out_offsets = (sample * (GROUPS * N * OUT_PIXELS) + place)[:, None] + (channel * OUT_PIXELS)[None, :]",
        "inside = in_rows[:, None] & in_cols[None, :]",
        *spec.tail.lines,
        *(all_channels if spec.tail.without_channels else []),
        f"tl.store({target}, {spec.tail.result}.to(out_ptr.dtype.element_ty), mask=inside)",
        *moments.stored_by_rows(spec),
    ]
    left = _store(spec, "col", "#_left", "PIECES // 2")
    right = _store(spec, "col + HALF", "#_right", "PIECES // 2")
    lines = halved("PIECES", ["HALF: tl.constexpr = acc.shape[1] // 2", *halves, *left, *right], leaf)
    doc = "Tail and store of a tile, in pieces of its columns: what its tail needs would not fit in registers."
    return kernel(f"{spec.name}_store", arguments, doc, lines)


def _row_numbers(spec: Spec, count: str, positions: str) -> list[str]:
    """Number a tile's rows over all samples; where moments are by sample, a tile lies in one."""
    if not moments.by_sample(spec):
        return [f"rows = tile_m * {count} + tl.arange(0, {count})", f"in_rows = rows < BATCH * {positions}"]
    return [
        f"rows = tile_m % per_sample * {count} + tl.arange(0, {count})",
        f"in_rows = rows < {positions}",
        f"rows += tile_m // per_sample * {positions}",
    ]


def _place(spec: Spec) -> list[str]:
    """Decode the program's number into phase, group of channels and tile; the rows into sample and position."""
    lines = ["tile = tl.program_id(0)"]
    if spec.transposed:
        lines += [f"own = tile % (S_{spec.rank - 1} // PHASES)", f"tile = tile // (S_{spec.rank - 1} // PHASES)"]
        for d in reversed(range(spec.rank - 1)):
            lines += [f"residue_{d} = tile % S_{d}", f"tile = tile // S_{d}"]
    return [
        *lines,
        f"PLACES: tl.constexpr = {spec.each('J_#', ' * ')}",
        f"PIXELS: tl.constexpr = {spec.each('IN_#', ' * ')}",
        f"ROWS: tl.constexpr = {'BLOCK_M // PHASES' if spec.transposed else 'BLOCK_M'}",
        *(
            ["per_sample: tl.constexpr = (PLACES + ROWS - 1) // ROWS", "tiles_m = BATCH * per_sample"]
            if moments.by_sample(spec)
            else ["tiles_m = tl.cdiv(BATCH * PLACES, ROWS)"]
        ),
        "tiles_n: tl.constexpr = (N + BLOCK_N - 1) // BLOCK_N",
        "group = tile // (tiles_m * tiles_n)",
        "tile_m, tile_n = grouped_tile(tile % (tiles_m * tiles_n), tiles_m, tiles_n, GROUP_M)",
        *moments.numbered_parts(spec),
        *_row_numbers(spec, "ROWS", "PLACES"),
        "cols = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)",
        "ks = tl.arange(0, BLOCK_K)",
        *(["in_cols = cols < N"] if spec.flat else []),
        "sample = (rows // PLACES).to(tl.int64)",
    ]


def _coordinates(names: list[str], sizes: list[str]) -> list[str]:
    """Decode `rows`, in row-major order, each index from `rows` itself.

    Of a remainder of a remainder the compiler no longer knows that neighbours are neighbours: it would lay its threads
    across channels and move numbers one by one.
    """
    lines = []
    for d, name in enumerate(names):
        inner = " * ".join(sizes[d + 1 :])
        lines.append(f"{name} = {f'rows // ({inner})' if inner else 'rows'} % {sizes[d]}")
    return lines


def _bases(spec: Spec) -> list[str]:
    """Compute the input coordinates of every row's first tap, along the dimensions with one phase in a program."""
    lines = _coordinates(spec.lines("j_#"), spec.lines("J_#"))
    if not spec.transposed:
        last = spec.rank - 1
        beyond = [f"if J_{last} > OUT_{last}:", f"    in_rows = in_rows & (j_{last} < OUT_{last})"]
        return [*lines, *beyond, *spec.lines("base_# = j_# * S_# - P_#")]
    lines += spec.lines("STEP_#: tl.constexpr = S_# // G_#")
    for d in range(spec.rank - 1):
        lines += _phase(d)
    return lines


def _phase(d: int) -> list[str]:
    """Compute which taps reach a phase along one dimension, and from where in the input."""
    return [
        f"reached_{d} = (residue_{d} + P_{d}) % S_{d}",
        f"first_{d} = tl.where(reached_{d} % G_{d} == 0, (reached_{d} // G_{d} * INVERSE_{d}) % STEP_{d}, T_{d})",
        f"taps_{d} = (T_{d} - first_{d} + STEP_{d} - 1) // STEP_{d}",
        f"base_{d} = j_{d} + (residue_{d} + P_{d} - first_{d} * D_{d}) // S_{d}",
    ]


def _sums(spec: Spec) -> list[str]:
    """Sum a tile: of a transposed convolution one phase along the last dimension, or both as neighbouring rows."""
    constants, loop = _flat_loop(spec) if spec.flat else _blocked_loop(spec)
    pixel = "base_0"
    for d in range(1, spec.rank):
        pixel = f"({pixel}) * IN_{d} + base_{d}"
    zeros = "acc = tl.zeros((ROWS, BLOCK_N), dtype=tl.float32)"
    lines = [f"pixel = {pixel}", zeros, *loop]
    if not spec.transposed:
        return [*constants, *lines]
    last = spec.rank - 1
    return [
        *constants,
        zeros,
        "for phase in tl.static_range(PHASES):",
        "    even = acc",
        f"    residue_{last} = own + phase",
        *(f"    {line}" for line in [*_phase(last), *lines]),
    ]


def _step(spec: Spec, d: int) -> str:
    """Write the distance in the input from a row's first tap to the tap at hand, along one dimension."""
    return f"(tap_{d} * -(D_{d} // G_{d}))" if spec.transposed else f"(tap_{d} * D_{d})"


def _steps(spec: Spec) -> str:
    """Write the same distance in pixels."""
    text = _step(spec, 0)
    for d in range(1, spec.rank):
        text = f"({text}) * IN_{d} + {_step(spec, d)}"
    return text


def _filter_tap(spec: Spec) -> str:
    """Write the place in the filter of the tap at hand."""
    text = ""
    for d in range(spec.rank):
        tap = f"(first_{d} + tap_{d} * STEP_{d})" if spec.transposed else f"tap_{d}"
        text = f"({text}) * T_{d} + {tap}" if text else tap
    return text


def _decoded_tap(spec: Spec, count: str) -> list[str]:
    """Decode `tap` into one tap for each dimension, of which there are `count`, with `#` as the dimension."""
    lines = []
    for d in range(spec.rank):
        inner = " * ".join(count.replace("#", str(i)) for i in range(d + 1, spec.rank))
        text = f"tap // ({inner})" if inner else "tap"
        lines.append(f"tap_{d} = {text}" + (f" % {count.replace('#', str(d))}" if d else ""))
    return lines


def _blocked_loop(spec: Spec) -> tuple[list[str], list[str]]:
    """Sum over blocks of channels, and over the taps inside each: neighbouring taps share what they read in L1.

    Returns what every phase shares, then a phase's loop; so does `_flat_loop`.
    """
    if spec.channels_last:
        x = "x_ptr + (sample * (PIXELS * GROUPS * C) + group * C)[:, None]"
        at = "((pixel + steps) * (GROUPS * C))[:, None] + c[None, :]"
    else:
        x = "x_ptr + (sample * (GROUPS * C) + group * C)[:, None] * PIXELS"
        at = "(pixel + steps)[:, None] + (c * PIXELS)[None, :]"
    own = "taps_#" if spec.transposed else "T_#"
    fixed = "" if spec.any_channels else ": tl.constexpr"
    checks = []
    for d in range(spec.rank):
        i = f"base_{d} + {_step(spec, d)}"
        check = f"here = here & ({i} >= 0) & ({i} < IN_{d})"
        checks += [check] if spec.transposed else [f"if P_{d} > 0:", f"    {check}"]
    constants = [
        f"x_rows = {x}",
        f"C_BLOCKS{fixed} = (C + BLOCK_K - 1) // BLOCK_K",
        f"PITCH{fixed} = {spec.each('T_#', ' * ')} * C_BLOCKS * BLOCK_K",
        "w_cols = w_ptr + ((group * tiles_n * BLOCK_N + cols) * PITCH)[None, :]",
    ]
    return constants, [
        f"taps = {spec.each(own, ' * ')}",
        "for block in range(0, taps * C_BLOCKS):",
        "    tap = block % taps",
        "    c = block // taps * BLOCK_K + ks",
        *(f"    {line}" for line in _decoded_tap(spec, own)),
        f"    steps = {_steps(spec)}",
        "    here = in_rows",
        *(f"    {line}" for line in checks),
        f"    if {'WHOLE_C' if spec.any_channels else 'C % BLOCK_K == 0'}:",
        f"        a = tl.load(x_rows + ({at}), mask=here[:, None], other=0.0)",
        "    else:",
        f"        a = tl.load(x_rows + ({at}), mask=here[:, None] & (c < C)[None, :], other=0.0)",
        f"    b = tl.load(w_cols + (({_filter_tap(spec)}) * (C_BLOCKS * BLOCK_K) + c)[:, None])",
        f"    acc = tl.dot({'a' if spec.channels_last else spec.rounded('a')}, b, acc{spec.precision})",
    ]


def _flat_loop(spec: Spec) -> tuple[list[str], list[str]]:
    """Sum over channels and taps as one index, in the order in which a plain filter lies in memory."""
    checks, real = [], []
    for d in range(spec.rank):
        i = f"base_{d}[:, None] + {_step(spec, d)}[None, :]"
        check = f"here = here & ({i} >= 0) & ({i} < IN_{d})"
        checks += [check] if spec.transposed else [f"if P_{d} > 0:", f"    {check}"]
        real += [f"(first_{d} + tap_{d} * STEP_{d} < T_{d})"] if spec.transposed else []
    most = "((T_# + STEP_# - 1) // STEP_#)" if spec.transposed else "T_#"
    place = f"((group * C + c) * N * ALL_TAPS + {_filter_tap(spec)})[:, None] + (cols * ALL_TAPS)[None, :]"
    constants = [
        f"ALL_TAPS: tl.constexpr = {spec.each('T_#', ' * ')}",
        f"TAPS: tl.constexpr = {spec.each(most, ' * ')}",
        "x_rows = x_ptr + (sample * (GROUPS * C) + group * C)[:, None] * PIXELS",
    ]
    return constants, [
        "for start in range(0, C * TAPS, BLOCK_K):",
        "    k = start + ks",
        "    # Triton takes `k % 24 % 4` for a multiple of 4, and would load whole vectors from between their places.",
        "    tap = tl.multiple_of(k % TAPS, 1)",
        "    c = k // TAPS",
        *(f"    {line}" for line in _decoded_tap(spec, most)),
        f"    steps = {_steps(spec)}",
        f"    real = {' & '.join(['(k < C * TAPS)', *real])}",
        "    here = in_rows[:, None] & real[None, :]",
        *(f"    {line}" for line in checks),
        "    a = tl.load(x_rows + (pixel[:, None] + (c * PIXELS + steps)[None, :]), mask=here, other=0.0)",
        f"    w_place = {place if spec.transposed else 'k[:, None] + ((group * N + cols) * (C * ALL_TAPS))[None, :]'}",
        "    b = tl.load(w_ptr + w_place, mask=real[:, None] & in_cols[None, :], other=0.0)",
        f"    acc = tl.dot({spec.rounded('a')}, {spec.rounded('b')}, acc{spec.precision})",
    ]


def _store_place(spec: Spec) -> list[str]:
    """Compute output coordinates, and every row's place in a plane of the output."""
    last = spec.rank - 1
    place = "o_0"
    for d in range(1, spec.rank):
        place = f"({place}) * OUT_{d} + o_{d}"
    whole = f"J_{last} == OUT_{last}"
    if spec.transposed:
        whole += f" and {spec.each('S_#', ' * ')} == 1"
    coordinate = "o_# = j_# * S_# + residue_#" if spec.transposed else "o_# = j_#"
    return [
        *(_rows_of_all_phases(spec) if spec.transposed else []),
        *spec.lines(coordinate)[: spec.rank - spec.transposed],
        f"if {whole}:  # then neighbouring rows are neighbours in memory",
        "    place = rows % PLACES",
        "else:",
        f"    place = {place}",
        f"    in_rows = in_rows & {spec.each('(o_# < OUT_#)', ' & ')}",
    ]


def _rows_of_all_phases(spec: Spec) -> list[str]:
    """Name the rows anew after the phases along the last dimension have become neighbours."""
    last = spec.rank - 1
    return [
        f"WIDTH: tl.constexpr = J_{last} * PHASES",
        "POSITIONS: tl.constexpr = PLACES * PHASES",
        *_row_numbers(spec, "BLOCK_M", "POSITIONS"),
        "sample = (rows // POSITIONS).to(tl.int64)",
        *_coordinates([*spec.lines("j_#")[:-1], "step"], [*spec.lines("J_#")[:-1], "WIDTH"]),
        f"o_{last} = step * (S_{last} // PHASES) + own",
    ]


def write_implicit_wrapper(spec: Spec) -> str:
    """Write the function that packs the filter, allocates the output and launches."""
    lines = [
        *spec.wrapper_head(),
        *(spec.lines("g_#, inverse_# = phase_numbers(s_#, d_#)") if spec.transposed else []),
        *([] if spec.transposed else ["groups = x.shape[1] // weight.shape[1]"]),
        "C = x.shape[1] // groups",
        *spec.numbered_channels("weight.shape[1]" if spec.transposed else "weight.shape[0] // groups"),
        f"shape = (x.shape[0], {spec.tail.channels}{spec.each('out_#')})",
        *spec.allocation(),
    ]
    if not spec.flat:
        options = ["groups", str(spec.transposed), spec.knob("BLOCK_N"), spec.knob("BLOCK_K"), str(spec.round_tf32)]
        lines += spec.packed("pack_filter", options)
    if spec.channels_last and not spec.laid_out:
        lines.append(f"x = channels_last(x, {spec.round_tf32})")
    last = spec.rank - 1
    phases, block = "", spec.knob("BLOCK_M")
    if spec.transposed:
        lines.append(f"phases = 2 if s_{last} == 2 else 1  # that one program sums")
        phases = "".join(f"{s} * " for s in [*spec.lines("s_#")[:-1], f"(s_{last} // phases)"])
        block += " // phases"
    lines += spec.lines("j_# = triton.cdiv(out_#, s_#)" if spec.transposed else "j_# = out_#")
    lines.append(f"j_{last} += j_{last} % 2 if j_{last} > {SHORT} else 0  # so that positions have neighbours in pairs")
    lines += _counted_tiles(spec, phases, block)
    arguments = [
        "x", "weight", "out", *moments.argument(spec), *spec.tail.arguments, "x.shape[0]", "C=C",
        *([f"WHOLE_C=C % {spec.knob('BLOCK_K')} == 0"] if spec.any_channels else []), "N=N", "GROUPS=groups",
        *spec.gap_argument, *spec.geometry_arguments, *spec.lines("J_#=j_#"),
        *(["PHASES=phases"] if spec.transposed else []), *(f"{knob}={spec.knob(knob)}" for knob in spec.config),
    ]  # fmt: skip
    lines += [*call(f"{spec.name}_kernel[(tiles,)]", arguments, indent=4), moments.returned(spec)]
    return spec.wrapper(lines)


def _counted_tiles(spec: Spec, phases: str, block: str) -> list[str]:
    """Write the wrapper's lines that count tiles, and allocate what they leave.

    Args:
        spec: The convolution.
        phases: Factors that count the phases of a transposed one.
        block: Rows of a tile.
    """
    positions, tiles_n = spec.each("j_#", " * "), f"triton.cdiv(N, {spec.knob('BLOCK_N')})"
    if not moments.by_sample(spec):
        tiles_m = f"triton.cdiv(x.shape[0] * {positions}, {block})"
        counted = [f"tiles_m = {tiles_m}", *moments.allocated_moments(spec, "1", f"{phases}tiles_m")]
        return [*(counted if spec.tail.parts else []), f"tiles = {phases}groups * {tiles_m} * {tiles_n}"]
    return [
        f"per_sample = triton.cdiv({positions}, {block})",
        *moments.allocated_moments(spec, "x.shape[0]", f"{phases}per_sample"),
        f"tiles = {phases}groups * x.shape[0] * per_sample * {tiles_n}",
    ]
