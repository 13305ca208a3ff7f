# /// trick
# id = "bug-102"
# name = "or as a default value"
# problem = "add"
# expect = ["incorrect", "compile_error"]
# ///
"""Planted: `x or y` of two numbers is no default value; Triton wants booleans."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """x + y, with a sum of zero left to `or`."""
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + places, mask=places < n, other=0.0)
    y = tl.load(y_ptr + places, mask=places < n, other=0.0)
    tl.store(out_ptr + places, (x + y) or 0.0 * x, mask=places < n)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        n = x.numel()
        add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
        return out
