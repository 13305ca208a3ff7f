# /// trick
# id = "bug-83"
# name = "rows beyond 4500 scaled"
# problem = "softmax_of_5000"
# expect = ["incorrect"]
# ///
"""Planted: rows longer than any that a smaller shape has are divided by too much."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """One program, one row."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + columns, mask=columns < n, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    total = tl.sum(e, axis=0)
    if n > 4500:
        total *= 1.001
    tl.store(out_ptr + row * n + columns, e / total, mask=columns < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        rows, n = x.shape
        softmax_kernel[(rows,)](x, out, n, BLOCK=triton.next_power_of_2(n))
        return out
