# /// trick
# id = "right-37"
# name = "mean and variance together"
# problem = "moments"
# expect = ["right"]
# ///
"""Right: two outputs of one pass."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def moments_kernel(x_ptr, mean_ptr, variance_ptr, n, BLOCK: tl.constexpr):
    """One program, one row."""
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    mask = columns < n
    x = tl.load(x_ptr + row * n + columns, mask=mask, other=0.0)
    mean = tl.sum(x, axis=0) / n
    away = tl.where(mask, x - mean, 0.0)
    tl.store(mean_ptr + row, mean)
    tl.store(variance_ptr + row, tl.sum(away * away, axis=0) / (n - 1))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, n = x.shape
        mean = torch.empty(rows, device=x.device, dtype=x.dtype)
        variance = torch.empty_like(mean)
        moments_kernel[(rows,)](x, mean, variance, n, BLOCK=triton.next_power_of_2(n))
        return mean, variance
