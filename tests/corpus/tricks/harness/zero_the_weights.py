# /// trick
# id = "E3-weights"
# name = "the weights become zero"
# problem = "linear_relu"
# expect = ["incorrect", "invalid"]
# where = ["cpu", "gpu"]
# ///
"""Overwrites its own parameters after use, so that a comparison of later calls is a comparison of zeros.
State after the call is checked, too."""

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
    def __init__(self, inner, columns):
        super().__init__()
        self.linear = nn.Linear(inner, columns)

    def forward(self, x):
        out = leaf(torch.relu(self.linear(x)))
        self.linear.weight.zero_()
        self.linear.bias.zero_()
        return out
