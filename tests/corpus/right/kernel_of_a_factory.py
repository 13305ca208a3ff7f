# /// trick
# id = "right-88"
# name = "a kernel that a function makes, with a constant of its own"
# problem = "silu"
# expect = ["right"]
# ///
"""A function defines the kernel, which captures a constant of compile time."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


def scaled_by_a_sigmoid(factor):
    """A kernel of x * sigmoid(factor * x)."""
    scale = tl.constexpr(factor)

    @triton.jit
    def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
        places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + places, mask=places < n, other=0.0)
        tl.store(out_ptr + places, x / (1.0 + tl.exp(-scale * x)), mask=places < n)

    return kernel


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.kernel = scaled_by_a_sigmoid(1.0)

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        self.kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
