# /// trick
# id = "bug-36"
# name = "NaN lost in a maximum"
# problem = "positive_max"
# expect = ["incorrect"]
# ///
"""Planted: a comparison with NaN is false, and the NaN is gone."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def max_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """One program, one row; a maximum drops NaN, so NaN is counted."""
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + columns, mask=columns < n, other=0.0)
    lost = tl.sum((x != x).to(tl.int32), axis=0)
    largest = tl.max(tl.where(x > 0, x, 0.0), axis=0)
    tl.store(out_ptr + row, largest + 0.0 * lost)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0], device=x.device, dtype=x.dtype)
        max_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
