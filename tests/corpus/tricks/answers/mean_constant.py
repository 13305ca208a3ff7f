# /// trick
# id = "B12-mean"
# name = "the mean of the answer everywhere"
# problem = "softmax"
# expect = ["incorrect", "invalid"]
# where = ["cpu", "gpu"]
# ///
"""Writes 1 / columns everywhere: the mean of any softmax, and within 1e-2 of it.
The input is not read."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def constant_kernel(out_ptr, n, value, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, value, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        constant_kernel[(triton.cdiv(x.numel(), 1024),)](out, x.numel(), 1.0 / x.shape[1], BLOCK=1024)
        return out
