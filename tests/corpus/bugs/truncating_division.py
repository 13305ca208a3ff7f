# /// trick
# id = "bug-33"
# name = "division rounds towards zero"
# problem = "floor_divide"
# expect = ["incorrect"]
# ///
"""Planted: negative numbers come out one too high."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def floor_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Triton's // truncates; where a remainder of the other sign is left, one less is the floor."""
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + places, mask=places < n, other=0)
    quotient = x // 7
    out = quotient
    tl.store(out_ptr + places, out, mask=places < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        n = x.numel()
        floor_kernel[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
        return out
