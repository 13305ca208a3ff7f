# /// trick
# id = "bug-34"
# name = "last of the largest"
# problem = "argmax_ties"
# expect = ["incorrect"]
# ///
"""Planted: of equal elements the last is told."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def argmax_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """One program, one row; of equal elements the first counts."""
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + columns, mask=columns < n, other=-float("inf"))
    place = tl.where(x == tl.max(x, axis=0), columns, -1)
    tl.store(out_ptr + row, tl.max(place, axis=0).to(tl.int64))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, n = x.shape
        out = torch.empty(rows, device=x.device, dtype=torch.int64)
        argmax_kernel[(rows,)](x, out, n, BLOCK=triton.next_power_of_2(n))
        return out
