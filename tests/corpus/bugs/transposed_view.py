# /// trick
# id = "bug-67"
# name = "a transpose that is a view of a plain copy"
# problem = "transpose"
# expect = ["incorrect"]
# finding = ["wrong_strides"]
# ///
"""Planted: the numbers lie as they lay; the move is left to whoever reads it."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    where = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + where, tl.load(x_ptr + where, mask=where < n, other=0.0), mask=where < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        copy_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out.T
