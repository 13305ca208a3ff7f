# /// trick
# id = "bug-03"
# name = "grid rounded down"
# problem = "activation_tail"
# expect = ["incorrect"]
# ///
"""Planted: elements beyond the last whole block are never written; sizes that 1024 divides are right."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def tail_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """One program, BLOCK elements."""
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + places, mask=places < n, other=0.0)
    y = tl.where(x > 0, x, 0.02 * x)
    y = tl.minimum(y, 1.5)
    y = y * 2.0
    tl.store(out_ptr + places, y, mask=places < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        n = x.numel()
        tail_kernel[(n // 1024,)](x, out, n, BLOCK=1024)
        return out
