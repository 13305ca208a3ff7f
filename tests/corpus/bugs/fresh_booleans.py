# /// trick
# id = "bug-75"
# name = "fresh booleans are taken for false"
# problem = "activation_tail"
# expect = ["incorrect"]
# where = ["cpu"]
# ///
"""Planted: marks are read that nobody has set."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def tail_kernel(x_ptr, done_ptr, out_ptr, n, BLOCK: tl.constexpr):
    where = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + where, mask=where < n, other=0.0)
    done = tl.load(done_ptr + where, mask=where < n, other=0)
    y = tl.minimum(tl.where(x > 0, x, 0.02 * x), 1.5) * 2.0
    tl.store(out_ptr + where, tl.where(done != 0, 0.0, y), mask=where < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        n = x.numel()
        done = torch.empty(n, device=x.device, dtype=torch.bool)
        tail_kernel[(triton.cdiv(n, 1024),)](x, done, out, n, BLOCK=1024)
        return out
