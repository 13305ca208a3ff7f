# /// trick
# id = "bug-103"
# name = "if on a whole block"
# problem = "activation_tail"
# expect = ["compile_error"]
# ///
"""Planted: one `if` cannot decide for every element of a block."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def tail_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Leaky ReLU, clamp, scale."""
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + places, mask=places < n, other=0.0)
    if x > 0:
        y = x
    else:
        y = 0.02 * x
    tl.store(out_ptr + places, tl.minimum(y, 1.5) * 2.0, mask=places < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        n = x.numel()
        tail_kernel[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
        return out
