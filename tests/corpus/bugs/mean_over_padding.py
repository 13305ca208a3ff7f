# /// trick
# id = "bug-17"
# name = "mean over padded lanes"
# problem = "row_mean"
# expect = ["incorrect"]
# ///
"""Planted: divided by the block, not by the row."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mean_kernel(x_ptr, out_ptr, n_rows, n, BLOCK: tl.constexpr):
    """As many programs as there are multiprocessors; each takes every so-manieth row."""
    columns = tl.arange(0, BLOCK)
    for row in range(tl.program_id(0), n_rows, tl.num_programs(0)):
        x = tl.load(x_ptr + row * n + columns, mask=columns < n, other=0.0)
        tl.store(out_ptr + row, tl.sum(x, axis=0) / BLOCK)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, n = x.shape
        out = torch.empty(rows, device=x.device, dtype=x.dtype)
        mean_kernel[(min(rows, 132),)](x, out, rows, n, BLOCK=triton.next_power_of_2(n))
        return out
