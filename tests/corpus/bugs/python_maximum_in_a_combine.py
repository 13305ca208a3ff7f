# /// trick
# id = "bug-107"
# name = "Python's min where max is meant, in a combine function"
# problem = "positive_max"
# expect = ["incorrect"]
# ///
"""Planted: in a combine function, too, `min` is elementwise."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def larger(a, b):
    """Combine two values."""
    return min(a, b)


@triton.jit
def row_max_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """One program, one row."""
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + columns, mask=columns < n, other=-float("inf"))
    tl.store(out_ptr + row, tl.reduce(x, 0, larger))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0], device=x.device)
        row_max_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
