# /// trick
# id = "bug-78"
# name = "grid capped at 8192 programs"
# problem = "tall_softmax"
# expect = ["incorrect"]
# ///
"""Planted: rows past the 8192nd have no program, and no loop inside makes up for it."""

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
    tl.store(out_ptr + row * n + columns, e / tl.sum(e, axis=0), mask=columns < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        rows, n = x.shape
        softmax_kernel[(min(rows, 8192),)](x, out, n, BLOCK=triton.next_power_of_2(n))
        return out
