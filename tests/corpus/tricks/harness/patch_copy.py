# /// trick
# id = "E1-copy"
# name = "Tensor.copy_ delivers something else"
# problem = "softmax"
# expect = ["invalid", "incorrect", "runtime_error"]
# where = ["cpu", "gpu"]
# ///
"""Replaces the method that takes the answer out of the process.
Only raw bytes that another process reads are the answer."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


def deliver(kind):
    kind.copy_ = lambda self, other, *args: self
    kind.clone = lambda self, *args, **kwargs: self


deliver(torch.Tensor)


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
        return leaf(torch.zeros_like(x))
