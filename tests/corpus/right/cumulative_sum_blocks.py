# /// trick
# id = "right-36"
# name = "running sums in blocks with a carry"
# problem = "cumulative_sum"
# expect = ["right"]
# ///
"""Right: a carry goes from block to block."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def cumsum_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """One program, one row, block by block; each adds what went before."""
    row = tl.program_id(0)
    carry = 0.0
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        mask = columns < n
        x = tl.load(x_ptr + row * n + columns, mask=mask, other=0.0)
        tl.store(out_ptr + row * n + columns, tl.cumsum(x, axis=0) + carry, mask=mask)
        carry += tl.sum(x, axis=0)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        cumsum_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=128)
        return out
