# /// trick
# id = "bug-111"
# name = "None turned into a block under a condition at run time"
# problem = "add"
# expect = ["incorrect"]
# ///
"""Planted: after an `if` at run time the name is None again, so the compiled kernel adds nothing."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """x + y, where y is loaded by every program that has elements."""
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + places, mask=places < n, other=0.0)
    y = None
    if tl.program_id(0) * BLOCK < n:
        y = tl.load(y_ptr + places, mask=places < n, other=0.0)
    if y is not None:
        x += y
    tl.store(out_ptr + places, x, mask=places < n)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        n = x.numel()
        add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
        return out
