"""Depthwise convolution: too few products per number read for tensor cores, so each program sums its taps directly."""

from egg_graph.expert.codegen.launch import call, kernel
from egg_graph.expert.playbooks.convolution.spec import Spec
from egg_graph.expert.playbooks.convolution.tail import Dimension, Tile


def depthwise_tile(rank: int) -> Tile:
    """Return how the kernel's tile addresses the output: a run of positions in one plane."""
    spatial = (Dimension(f"o_{d}", "inside", f"OUT_{d}") for d in range(rank))
    return Tile((Dimension("sample", "", "BATCH"), Dimension("channel", "", "CHANNELS"), *spatial))


def write_depthwise(spec: Spec) -> str:
    """Write the kernel."""
    arguments = [
        "x_ptr", "w_ptr", "out_ptr", *spec.tail.parameters,
        *(f"{name}: tl.constexpr" for name in ("CHANNELS", "GROUPS", *spec.geometry, "BLOCK")),
    ]  # fmt: skip
    lines = [
        f"PIXELS: tl.constexpr = {spec.each('IN_#', ' * ')}",
        f"OUT_PIXELS: tl.constexpr = {spec.each('OUT_#', ' * ')}",
        "blocks: tl.constexpr = (OUT_PIXELS + BLOCK - 1) // BLOCK",
        "plane = (tl.program_id(0) // blocks).to(tl.int64)",
        "sample = plane // CHANNELS",
        "channel = plane % CHANNELS",
        "position = (tl.program_id(0) % blocks) * BLOCK + tl.arange(0, BLOCK)",
        "inside = position < OUT_PIXELS",
    ]
    for d in range(spec.rank):
        inner = " * ".join(f"OUT_{i}" for i in range(d + 1, spec.rank))
        index = f"position // ({inner})" if inner else "position"
        lines.append(f"o_{d} = {index} % OUT_{d}" if d else f"o_{d} = {index}")
        lines.append(f"base_{d} = o_{d} * S_{d} - P_{d}")
    pixel = "base_0"
    for d in range(1, spec.rank):
        pixel = f"({pixel}) * IN_{d} + base_{d}"
    lines += [
        "x_plane = x_ptr + (sample * GROUPS + channel // (CHANNELS // GROUPS)) * PIXELS",
        f"w_plane = w_ptr + channel * ({spec.each('T_#', ' * ')})",
        f"pixel = {pixel}",
        "acc = tl.zeros((BLOCK,), dtype=tl.float32)",
        *_taps(spec),
        "out_offsets = plane * OUT_PIXELS + position",
        *spec.tail.lines,
        f"tl.store(out_ptr + out_offsets, {spec.tail.result}.to(out_ptr.dtype.element_ty), mask=inside)",
    ]
    doc = f"{spec.tail.formula}: BLOCK positions of one plane a program, each the sum of its taps in fp32."
    return kernel(f"{spec.name}_kernel", arguments, doc, lines)


def _taps(spec: Spec) -> list[str]:
    """Write the loops over taps, the innermost unrolled so that its loads overlap."""
    lines, indent, steps, tap = [], "", "", ""
    checks = []
    for d in range(spec.rank):
        unrolled = d == spec.rank - 1
        lines.append(f"{indent}for tap_{d} in {'tl.static_range' if unrolled else 'range'}(T_{d}):")
        indent += "    "
        step = f"tap_{d} * D_{d}"
        steps = f"({steps}) * IN_{d} + {step}" if steps else step
        tap = f"({tap}) * T_{d} + tap_{d}" if tap else f"tap_{d}"
        checks += [f"if P_{d} > 0:", f"    here = here & (base_{d} + {step} >= 0) & (base_{d} + {step} < IN_{d})"]
    body = [
        "here = inside",
        *checks,
        f"value = tl.load(x_plane + (pixel + {steps}), mask=here, other=0.0).to(tl.float32)",
        f"acc += value * tl.load(w_plane + {tap}).to(tl.float32)",
    ]
    return [*lines, *(indent + line for line in body)]


def write_depthwise_wrapper(spec: Spec) -> str:
    """Write the function that allocates the output and launches."""
    lines = [
        *spec.wrapper_head(),
        "batch, channels = x.shape[0], weight.shape[0]",
        f"out = torch.empty((batch, channels, {spec.each('out_#')}), device=x.device, dtype={spec.output_dtype})",
        f"programs = batch * channels * triton.cdiv({spec.each('out_#', ' * ')}, {spec.knob('BLOCK')})",
    ]
    arguments = [
        "x", "weight", "out", *spec.tail.arguments, "CHANNELS=channels", "GROUPS=x.shape[1]",
        *spec.geometry_arguments, *(f"{knob}={spec.knob(knob)}" for knob in spec.config),
    ]  # fmt: skip
    lines += [*call(f"{spec.name}_kernel[(programs,)]", arguments, indent=4), "return out"]
    return spec.wrapper(lines)
