# /// trick
# id = "bug-masked-lanes"
# name = "lanes behind the row in the sum"
# problem = "softmax"
# expect = ["incorrect"]
# ///
"""Planted: lanes behind the row are masked off without `other`: on a GPU each is 0, and adds exp(-maximum)."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, n_columns, BLOCK: tl.constexpr):
    """One program, one row: one pass to load, one to store."""
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    mask = columns < n_columns
    x = tl.load(x_ptr + row * n_columns + columns, mask=mask)
    numerator = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * n_columns + columns, numerator / tl.sum(numerator, axis=0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
