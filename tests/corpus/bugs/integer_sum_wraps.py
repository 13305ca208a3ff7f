# /// trick
# id = "bug-39"
# name = "integers added in 32 bits"
# problem = "integer_sum"
# expect = ["incorrect"]
# ///
"""Planted: the sum wraps before it is widened."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sum_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """One program, one row, widened before it is added up."""
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + columns, mask=columns < n, other=0)
    tl.store(out_ptr + row, tl.sum(x, axis=0, dtype=tl.int32).to(tl.int64))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0], device=x.device, dtype=torch.int64)
        sum_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
