# /// trick
# id = "D2-jit"
# name = "torch.jit.script"
# problem = "softmax"
# expect = ["invalid"]
# finding = ["forbidden_construct"]
# where = ["cpu", "gpu"]
# ///
"""TorchScript runs operators where a dispatcher of Python's may not look.
Another compiler does the work."""

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


@torch.jit.script
def rows(x):
    return torch.softmax(x, 1)


class ModelNew(nn.Module):
    def forward(self, x):
        return leaf(rows(x))
