# /// trick
# id = "right-levels"
# name = "finds levels by a table of their sizes"
# problem = "sum_of_levels"
# expect = ["right"]
# ///
"""Right: sizes come from memory, and a level has at least one pixel; a size of 0 would lead before the tensor."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def nearest_kernel(x_ptr, sides_ptr, points_ptr, out_ptr, total, levels, points, n, BLOCK: tl.constexpr):
    """One point of one sample."""
    sample = tl.program_id(0).to(tl.int64)
    point = tl.program_id(1)
    columns = tl.arange(0, BLOCK)
    at = tl.load(points_ptr + sample * points + point)
    added = tl.zeros((BLOCK,), tl.float32)
    start = 0
    for level in range(levels):
        side = tl.load(sides_ptr + level).to(tl.int32)
        nearest = tl.minimum(tl.maximum((at * side).to(tl.int32), 0), side - 1)
        row = x_ptr + (sample * total + start + nearest) * n
        added += tl.load(row + columns, mask=columns < n, other=0.0)
        start += side
    tl.store(out_ptr + (sample * points + point) * n + columns, added, mask=columns < n)


class ModelNew(nn.Module):
    def forward(self, x, sides, points):
        batch, total, n = x.shape
        out = torch.empty(batch, points.shape[1], n, device=x.device, dtype=x.dtype)
        grid = (batch, points.shape[1])
        nearest_kernel[grid](
            x, sides, points, out, total, sides.shape[0], points.shape[1], n, BLOCK=triton.next_power_of_2(n)
        )
        return out
