"""Implicit GEMM: rows are output positions, columns output channels, and the sum runs over taps and input channels.

One generator for one, two and three dimensions, plain and transposed. Two ways through the sum:

- `flat`, for few input channels: channels and taps together are summands, cut into runs whose offsets repeat, from a
  filter that a pass of its own packed run by run, each filled up with zeros to BLOCK_K;
- blocked: BLOCK_K channels of one tap at a time, from a filter that a pass of its own packed with channels innermost.
  Channels may lie in planes, as PyTorch keeps them, or innermost after a pass that moves them there and rounds them.

Output positions of one residue modulo the stride of a transposed convolution form a dense convolution of their own (a
phase) with its own taps: every STEP-th tap from the first that reaches them. No zero is multiplied.

Where channels lie in planes, positions are the last dimension of what is loaded and stored, so that neighbouring lanes
touch neighbours in memory.
"""

from egg_graph.expert.codegen.launch import call, kernel
from egg_graph.expert.playbooks.convolution.spec import Spec
from egg_graph.expert.playbooks.convolution.tail import Dimension, Tile


def implicit_tile(rank: int) -> Tile:
    """Return how the kernel's tile addresses the output."""
    row, col = "in_rows[None, :]", "in_cols[:, None]"
    spatial = (Dimension(f"o_{d}[None, :]", row, f"OUT_{d}") for d in range(rank))
    return Tile(
        (Dimension("sample[None, :]", row, "BATCH"), Dimension("channel[:, None]", col, "(GROUPS * N)"), *spatial)
    )


def write_implicit(spec: Spec) -> str:
    """Write the kernel."""
    arguments = [
        "x_ptr", "w_ptr", "out_ptr", *spec.tail.parameters, "BATCH",
        *(f"{name}: tl.constexpr" for name in ("C", "N", "GROUPS", *spec.geometry)),
        *(f"{knob}: tl.constexpr" for knob in ("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M")),
    ]  # fmt: skip
    lines = [*_place(spec), *_bases(spec), "acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)"]
    lines += _flat_loop(spec) if spec.flat else _blocked_loop(spec)
    lines += [*_store_place(spec), *spec.tail.lines]
    lines.append(f"tl.store(out_ptr + out_offsets, {spec.tail.result}.to(out_ptr.dtype.element_ty), mask=inside)")
    doc = f"{spec.tail.formula}: BLOCK_M output positions times BLOCK_N channels a program. Sums are in fp32."
    return kernel(f"{spec.name}_kernel", arguments, doc, lines)


def _place(spec: Spec) -> list[str]:
    """Decode the program's number into phase, group of channels and tile; the rows into sample and position."""
    lines = ["tile = tl.program_id(0)"]
    if spec.transposed:
        for d in reversed(range(spec.rank)):
            lines += [f"residue_{d} = tile % S_{d}", f"tile = tile // S_{d}"]
        lines += spec.lines("J_#: tl.constexpr = (OUT_# + S_# - 1) // S_#")
    else:
        lines += spec.lines("J_#: tl.constexpr = OUT_#")
    return [
        *lines,
        f"PLACES: tl.constexpr = {spec.each('J_#', ' * ')}",
        f"PIXELS: tl.constexpr = {spec.each('IN_#', ' * ')}",
        "tiles_m = tl.cdiv(BATCH * PLACES, BLOCK_M)",
        "tiles_n: tl.constexpr = (N + BLOCK_N - 1) // BLOCK_N",
        "group = tile // (tiles_m * tiles_n)",
        "tile_m, tile_n = grouped_tile(tile % (tiles_m * tiles_n), tiles_m, tiles_n, GROUP_M)",
        "rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)",
        "cols = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)",
        "ks = tl.arange(0, BLOCK_K)",
        "in_rows = rows < BATCH * PLACES",
        "in_cols = cols < N",
        "real_rows = tl.minimum(rows, BATCH * PLACES - 1)",
        "sample = (real_rows // PLACES).to(tl.int64)",
        "position = real_rows % PLACES",
    ]


def _bases(spec: Spec) -> list[str]:
    """Compute the input coordinates of every row's first tap."""
    lines = []
    for d in range(spec.rank):
        inner = " * ".join(f"J_{i}" for i in range(d + 1, spec.rank))
        index = f"position // ({inner})" if inner else "position"
        lines.append(f"j_{d} = {index} % J_{d}" if d else f"j_{d} = {index}")
        if not spec.transposed:
            lines.append(f"base_{d} = j_{d} * S_{d} - P_{d}")
            continue
        lines += [
            f"STEP_{d}: tl.constexpr = S_{d} // G_{d}",
            f"reached_{d} = (residue_{d} + P_{d}) % S_{d}",
            f"first_{d} = tl.where(reached_{d} % G_{d} == 0, (reached_{d} // G_{d} * INVERSE_{d}) % STEP_{d}, T_{d})",
            f"taps_{d} = (T_{d} - first_{d} + STEP_{d} - 1) // STEP_{d}",
            f"base_{d} = j_{d} + (residue_{d} + P_{d} - first_{d} * D_{d}) // S_{d}",
        ]
    pixel = "base_0"
    for d in range(1, spec.rank):
        pixel = f"({pixel}) * IN_{d} + base_{d}"
    return [*lines, f"pixel = {pixel}"]


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


def _blocked_loop(spec: Spec) -> list[str]:
    """Sum over blocks of channels, and over the taps inside each: neighbouring taps share what they read in L1."""
    if spec.channels_last:
        x = "x_ptr + (sample * (PIXELS * GROUPS * C) + group * C)[:, None]"
        at = "x_rows + (((pixel + steps) * (GROUPS * C))[:, None] + c[None, :])"
    else:
        x = "x_ptr + ((sample * (GROUPS * C) + group * C) * PIXELS + pixel)"
        at = "(x_rows + (steps + block // taps * (BLOCK_K * PIXELS)))[None, :] + (ks * PIXELS)[:, None]"
    m, k = ("[:, None]", "[None, :]") if spec.channels_last else ("[None, :]", "[:, None]")
    a = "a" if spec.channels_last else f"tl.trans({spec.rounded('a')})"
    own = "taps_#" if spec.transposed else "T_#"
    checks = []
    for d in range(spec.rank):
        i = f"base_{d} + {_step(spec, d)}"
        check = f"here = here & ({i} >= 0) & ({i} < IN_{d})"
        checks += [check] if spec.transposed else [f"if P_{d} > 0:", f"    {check}"]
    return [
        f"x_rows = {x}",
        "C_BLOCKS: tl.constexpr = (C + BLOCK_K - 1) // BLOCK_K",
        f"PITCH: tl.constexpr = {spec.each('T_#', ' * ')} * C_BLOCKS * BLOCK_K",
        "w_cols = w_ptr + ((group * tiles_n * BLOCK_N + cols) * PITCH)[None, :]",
        f"taps = {spec.each(own, ' * ')}",
        "for block in range(0, taps * C_BLOCKS):",
        "    tap = block % taps",
        "    c = block // taps * BLOCK_K + ks",
        *(f"    {line}" for line in _decoded_tap(spec, own)),
        f"    steps = {_steps(spec)}",
        "    here = in_rows",
        *(f"    {line}" for line in checks),
        "    if C % BLOCK_K == 0:",
        f"        a = tl.load({at}, mask=here{m}, other=0.0)",
        "    else:",
        f"        a = tl.load({at}, mask=here{m} & (c < C){k}, other=0.0)",
        f"    b = tl.load(w_cols + (({_filter_tap(spec)}) * (C_BLOCKS * BLOCK_K) + c)[:, None])",
        f"    acc = tl.dot({a}, b, acc{spec.precision})",
    ]


def _flat_loop(spec: Spec) -> list[str]:
    """Sum over runs of RUN channels or taps, each with all the taps inside it: BLOCK_K summands or fewer.

    Offsets inside a run are the same for all runs, so that an element costs one addition and one test: `valid_#` has
    a bit for each tap of a row that lies in the input, `need` the bits that a summand needs, all of them where there
    is no such summand. Bit 31 is never set.
    """
    split, inner = spec.split, range(spec.split, spec.rank)
    most = [f"MOST_{d}" for d in range(spec.rank)]
    sizes = ["C", *most]
    steps = " + ".join(_pixels(spec, d, f"inner_{d}") for d in inner)
    stride = "PIXELS" if split == 0 else _pixels(spec, split - 1, "1")
    split_valid = "((1 << C) - 1)" if split == 0 else f"valid_{split - 1}"
    outer = [f"c * PIXELS + run * (RUN * {stride})", *(_pixels(spec, d, f"tap_{d}") for d in range(split - 1))]
    known = " & ".join(["in_rows", *(f"((valid_{d} >> tap_{d}) & 1 == 1)" for d in range(split - 1))])
    places, shift = [], "RUN"
    for d in inner:
        places.append((f"inner_{d}", f"valid_{d}", shift))
        shift += f" + MOST_{d}"
    need = " | ".join(["(1 << ks // INNER)", *(f"(1 << {i} + {at})" for i, _, at in places)])
    return [
        *_valid_words(spec),
        f"INNER: tl.constexpr = {' * '.join(most[split:]) or '1'}",
        "tl.static_assert(INNER <= BLOCK_K)",
        "FITTING: tl.constexpr = BLOCK_K // INNER",
        f"RUN: tl.constexpr = FITTING if FITTING < {sizes[split]} else {sizes[split]}",
        f"RUNS: tl.constexpr = ({sizes[split]} + RUN - 1) // RUN",
        f"BLOCKS: tl.constexpr = {' * '.join([*sizes[:split], 'RUNS'])}",
        *(f"inner_{d} = {_digit('ks', most[d + 1 :], most[d])}" for d in inner),
        f"need = tl.where(ks < RUN * INNER, {need}, -1)",
        f"offsets = ks // INNER * {stride}" + (f" + {steps}" if steps else ""),
        f"inner_valid = {' | '.join([f'({v} << {at})' for _, v, at in places]) or '0'}",
        "x_rows = x_ptr + ((sample * (GROUPS * C) + group * C) * PIXELS + pixel)",
        f"w_cols = w_ptr + (({_filter_number(spec)}) * (tiles_n * BLOCK_N) + cols) * (BLOCKS * BLOCK_K)",
        "for block in range(0, BLOCKS):",
        "    run = block % RUNS",
        *(f"    tap_{d} = {_digit('block // RUNS', most[d + 1 : split - 1], most[d])}" for d in range(split - 1)),
        f"    c = {_digit('block // RUNS', most[: split - 1], '') if split else '0'}",
        *(["    run_rows = x_rows + (" + " + ".join(outer) + ")"]),
        *(f"    {line}" for line in _taken(spec, split_valid, known, sizes[split])),
        "    a = tl.load(run_rows[None, :] + offsets[:, None], mask=here, other=0.0)",
        "    b = tl.load(w_cols[None, :] + (block * BLOCK_K + ks)[:, None])",
        f"    acc = tl.dot(tl.trans({spec.rounded('a')}), b, acc{spec.precision})",
    ]


def _taken(spec: Spec, split_valid: str, known: str, size: str) -> list[str]:
    """Write which elements of a flat step are loaded: the mask `here`."""
    bits = [
        f"word = inner_valid | (({split_valid} >> run * RUN) & ((1 << RUN) - 1))",
        f"word = tl.where({known}, word, 0)",
        "here = (word[None, :] & need[:, None]) == need[:, None]",
    ]
    if spec.transposed:
        return bits
    return [
        f"if {spec.each('P_#', ' + ')} == 0:  # rows beyond the last are at its place, so that all taps are inside",
        f"    here = ((ks < RUN * INNER) & (run * RUN + ks // INNER < {size}))[:, None]",
        "else:",
        *(f"    {line}" for line in bits),
    ]


def _digit(number: str, after: list[str], size: str) -> str:
    """Write one digit of a number in mixed radix: sizes of the digits after it, and its own (empty for the first)."""
    text = f"{number} // ({' * '.join(after)})" if after else number
    return f"{text} % {size}" if size else text


def _pixels(spec: Spec, d: int, tap: str) -> str:
    """Write the distance in the input from a row's first tap to a tap of one dimension, in pixels."""
    inside = " * ".join(["1", *(f"IN_{i}" for i in range(d + 1, spec.rank))])
    return f"{tap} * ({f'-(D_{d} // G_{d})' if spec.transposed else f'D_{d}'} * {inside})"


def _filter_number(spec: Spec) -> str:
    """Write the number of the packed filter that the program's phase and group use."""
    if not spec.transposed:
        return "group"
    text = "residue_0"
    for d in range(1, spec.rank):
        text = f"({text} * S_{d} + residue_{d})"
    return f"{text} * GROUPS + group"


def _valid_words(spec: Spec) -> list[str]:
    """Write each row's bits along each dimension: bit t where tap t exists and lies in the input."""
    lines = []
    for d in range(spec.rank):
        i = f"base_{d} - t * (D_{d} // G_{d})" if spec.transposed else f"base_{d} + t * D_{d}"
        exists = f" & (first_{d} + t * STEP_{d} < T_{d})" if spec.transposed else ""
        most = f"(T_{d} + STEP_{d} - 1) // STEP_{d}" if spec.transposed else f"T_{d}"
        lines += [
            f"MOST_{d}: tl.constexpr = {most}",
            f"valid_{d} = tl.zeros((BLOCK_M,), dtype=tl.int32)",
            f"for t in tl.static_range(MOST_{d}):",
            f"    i = {i}",
            f"    valid_{d} = valid_{d} | (((i >= 0) & (i < IN_{d}){exists}).to(tl.int32) << t)",
        ]
    return lines


def _store_place(spec: Spec) -> list[str]:
    """Compute output coordinates and offsets."""
    lines = ["channel = group * N + cols", f"OUT_PIXELS: tl.constexpr = {spec.each('OUT_#', ' * ')}"]
    if spec.transposed:
        place = "o_0"
        for d in range(1, spec.rank):
            place = f"({place}) * OUT_{d} + o_{d}"
        lines += spec.lines("o_# = j_# * S_# + residue_#")
        lines += [
            f"if {spec.each('S_#', ' * ')} == 1:  # then neighbouring rows are neighbours in memory",
            "    place = position",
            "else:",
            f"    place = {place}",
            f"    in_rows = in_rows & {spec.each('(o_# < OUT_#)', ' & ')}",
        ]
    else:
        lines += [*spec.lines("o_# = j_#"), "place = position"]
    return [
        *lines,
        "out_offsets = (sample * (GROUPS * N * OUT_PIXELS) + place)[None, :] + (channel * OUT_PIXELS)[:, None]",
        "inside = in_rows[None, :] & in_cols[:, None]",
        "acc = tl.trans(acc)  # positions last: neighbouring lanes write neighbours",
    ]


def write_implicit_wrapper(spec: Spec) -> str:
    """Write the function that packs the filter, allocates the output and launches."""
    lines = [
        *spec.wrapper_head(),
        *([] if spec.transposed else ["groups = x.shape[1] // weight.shape[1]"]),
        "C = x.shape[1] // groups",
        "N = weight.shape[1]" if spec.transposed else "N = weight.shape[0] // groups",
        f"shape = (x.shape[0], groups * N, {spec.each('out_#')})",
        f"out = torch.empty(shape, device=x.device, dtype={spec.output_dtype})",
    ]
    blocks = f"{spec.knob('BLOCK_N')}, {spec.knob('BLOCK_K')}"
    if spec.flat:
        geometry = ", ".join(f"({spec.each(text)},)" for text in ("s_#", "p_#", "d_#"))
        lines.append(
            f"weight = pack_runs(weight, groups, {spec.transposed}, {geometry}, "
            f"{spec.split}, {blocks}, {spec.round_tf32})"
        )
    else:
        lines.append(f"weight = pack_filter(weight, groups, {spec.transposed}, {blocks}, {spec.round_tf32})")
    if spec.channels_last:
        lines.append(f"x = channels_last(x, {spec.round_tf32})")
    rows = "triton.cdiv(out_#, s_#)" if spec.transposed else "out_#"
    phases = f"{spec.each('s_#', ' * ')} * " if spec.transposed else ""
    tiles_m = f"triton.cdiv(x.shape[0] * {spec.each(rows, ' * ')}, {spec.knob('BLOCK_M')})"
    lines.append(f"tiles = {phases}groups * {tiles_m} * triton.cdiv(N, {spec.knob('BLOCK_N')})")
    arguments = [
        "x", "weight", "out", *spec.tail.arguments, "x.shape[0]", "C=C", "N=N", "GROUPS=groups",
        *spec.geometry_arguments, *(f"{knob}={spec.knob(knob)}" for knob in spec.config),
    ]  # fmt: skip
    lines += [*call(f"{spec.name}_kernel[(tiles,)]", arguments, indent=4), "return out"]
    return spec.wrapper(lines)
