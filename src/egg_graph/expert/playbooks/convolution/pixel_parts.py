"""What a convolution whose tail is reduced over all pixels leaves of each tile, and how it is joined.

A sum or a mean leaves one number a channel; a mean and a variance three: sum, squared deviations from the tile's mean,
count. A second kernel joins those of all tiles in fixed order (`join_sums`, `join_moments`).
"""

from egg_graph.expert.codegen.reductions import correction
from egg_graph.expert.playbooks.convolution.spec import Spec


def parts_of_tile(spec: Spec) -> list[str]:
    """Reduce what the tail computed over the tile's pixels, and store a number for each channel."""
    lines = [
        f"total = tl.sum(tl.where(inside, {spec.tail.result}, 0.0), axis=1)",
        "part = (sample * (GROUPS * N) + channel) * tiles_m + tile % tiles_m",
    ]
    if not _has_variance(spec):
        return [*lines, "tl.store(out_ptr + part, total, mask=in_channels)"]
    return [
        *lines,
        "count = tl.sum(in_places.to(tl.float32), axis=0)",
        f"apart = tl.where(inside, {spec.tail.result} - (total / count)[:, None], 0.0)",
        "tl.store(out_ptr + part * 3, total, mask=in_channels)",
        "tl.store(out_ptr + part * 3 + 1, tl.sum(apart * apart, axis=1), mask=in_channels)",
        "tl.store(out_ptr + part * 3 + 2, count + tl.zeros_like(total), mask=in_channels)",
    ]


def allocated_parts(spec: Spec) -> list[str]:
    """Write the wrapper's line that allocates what the tiles leave."""
    each = ", 3" if _has_variance(spec) else ""
    return [f"out = torch.empty((x_shape[0] * groups * N, tiles_m{each}), device=x.device, dtype=torch.float32)"]


def joined_parts(spec: Spec) -> list[str]:
    """Write the wrapper's lines that join the parts of every channel."""
    pixels = spec.each("v_#", " * ")
    results = [f"(x_shape[0], groups * N{', 1' * (node.rank - 2)})" for node in spec.tail.pixels]
    if not _has_variance(spec):
        scale = f"1.0 / ({pixels})" if spec.tail.pixels[0].base == "mean" else "1.0"
        return [f"return join_sums(out, {scale}, {spec.output_dtype}).view({results[0]})"]
    degrees = f"{pixels} - {correction(spec.tail.pixels[-1]):g}"
    return [
        f"mean, var = join_moments(out, {degrees}, {spec.output_dtype})",
        f"return mean.view({results[0]}), var.view({results[1]})",
    ]


def _has_variance(spec: Spec) -> bool:
    return len(spec.tail.pixels) > 1


def joining_helper(spec: Spec) -> str:
    """Return the helper that the wrapper joins the parts with."""
    return "join_moments" if _has_variance(spec) else "join_sums"
