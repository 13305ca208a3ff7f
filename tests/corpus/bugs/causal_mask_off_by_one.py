# /// trick
# id = "bug-30"
# name = "causal mask off by one"
# problem = "masked_softmax"
# expect = ["incorrect"]
# ///
"""Planted: every position sees one too many."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """One program, one row: columns after the diagonal count for nothing and become zero."""
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    seen = (columns <= row + 1) & (columns < n)
    x = tl.load(x_ptr + row * n + columns, mask=seen, other=-float("inf"))
    numerator = tl.exp(x - tl.max(x, axis=0))
    out = numerator / tl.sum(numerator, axis=0)
    tl.store(out_ptr + row * n + columns, out, mask=columns < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        softmax_kernel[(x.shape[0],)](x, out, x.shape[0], BLOCK=triton.next_power_of_2(x.shape[0]))
        return out
