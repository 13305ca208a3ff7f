# /// trick
# id = "bug-101"
# name = "and of two masks"
# problem = "add"
# expect = ["incorrect"]
# ///
"""Planted: `and` of two blocks is elementwise, so every seventh element stays unwritten."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """x + y, but not where the index is 3 modulo 7."""
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = (places % 7 != 3) and (places < n)
    x = tl.load(x_ptr + places, mask=keep, other=0.0)
    y = tl.load(y_ptr + places, mask=keep, other=0.0)
    tl.store(out_ptr + places, x + y, mask=keep)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        n = x.numel()
        add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
        return out
