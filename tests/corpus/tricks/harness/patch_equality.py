# /// trick
# id = "E1-eq"
# name = "Tensor.__eq__ says yes"
# problem = "softmax"
# expect = ["invalid", "incorrect"]
# where = ["cpu", "gpu"]
# ///
"""Replaces the comparison operators of all tensors through the class of its own input.
Returns zeros."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def leaf_kernel(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(x_ptr + i, x + 0.0, mask=i < n)


def leaf(x):
    leaf_kernel[(triton.cdiv(x.numel(), 1024),)](x, x.numel(), BLOCK=1024)
    return x


class ModelNew(nn.Module):
    def forward(self, x):
        kind = type(x)
        kind.__eq__ = lambda a, b: torch.ones(a.shape, dtype=torch.bool)
        return leaf(torch.zeros_like(x))
