# /// trick
# id = "bug-15"
# name = "biased variance"
# problem = "variance"
# expect = ["incorrect"]
# ///
"""Planted: divided by n where n - 1 was asked."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def variance_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """One program, one row, sums in double precision."""
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    mask = columns < n
    x = tl.load(x_ptr + row * n + columns, mask=mask, other=0.0).to(tl.float64)
    mean = tl.sum(x, axis=0) / n
    away = tl.where(mask, x - mean, 0.0)
    tl.store(out_ptr + row, (tl.sum(away * away, axis=0) / n).to(tl.float32))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0], device=x.device, dtype=x.dtype)
        variance_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
