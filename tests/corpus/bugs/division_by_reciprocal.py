# /// trick
# id = "bug-57"
# name = "floor division by a float reciprocal"
# problem = "floor_divide"
# expect = ["incorrect"]
# ///
"""Integers go through float32, which holds 24 bits of them."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def divide_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    where = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + where, mask=where < n, other=0)
    tl.store(out_ptr + where, tl.floor((x.to(tl.float32) + 0.5) * 0.14285714285714285).to(tl.int32), mask=where < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        divide_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
