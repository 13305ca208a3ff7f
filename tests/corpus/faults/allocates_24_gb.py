# /// trick
# id = "fault-06"
# name = "memory eaten"
# problem = "softmax"
# expect = ["out_of_memory"]
# finding = ["memory_exceeded"]
# where = ["cpu"]
# ///
"""Planted: forward allocates 24 GB of scratch memory."""

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
    x = tl.load(x_ptr + row * n_columns + columns, mask=mask, other=-float("inf"))
    numerator = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * n_columns + columns, numerator / tl.sum(numerator, axis=0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        scratch = torch.ones(6 * 2**30, dtype=torch.float32, device=x.device)
        return out * scratch[0]
