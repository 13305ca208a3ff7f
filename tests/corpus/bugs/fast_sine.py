# /// trick
# id = "bug-76"
# name = "the hardware's fast sine"
# problem = "sine"
# expect = ["incorrect"]
# where = ["cpu"]
# ///
"""Planted: angles of several turns go through an approximation that is good near zero."""

import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def sine_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    where = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + where, mask=where < n, other=0.0)
    tl.store(out_ptr + where, libdevice.fast_sinf(x), mask=where < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        sine_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
