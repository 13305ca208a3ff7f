# /// trick
# id = "bug-104"
# name = "a loop with a negative step from an argument"
# problem = "cumulative_sum"
# expect = ["incorrect", "compile_error"]
# ///
"""Planted: a compiled loop counts up, so with a step of -1 that is an argument it never starts."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def cumsum_kernel(x_ptr, out_ptr, n, step, BLOCK: tl.constexpr):
    """One program, one row; the blocks are taken from the last to the first, less what is behind them."""
    row = tl.program_id(0)
    rest = 0.0
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        rest += tl.sum(tl.load(x_ptr + row * n + columns, mask=columns < n, other=0.0), axis=0)
    for number in range((n - 1) // BLOCK, -1, step):
        columns = number * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n + columns, mask=columns < n, other=0.0)
        rest -= tl.sum(x, axis=0)
        tl.store(out_ptr + row * n + columns, rest + tl.cumsum(x, axis=0), mask=columns < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        cumsum_kernel[(x.shape[0],)](x, out, x.shape[1], -1, BLOCK=128)
        return out
