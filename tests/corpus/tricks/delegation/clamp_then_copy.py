# /// trick
# id = "D6-clamp"
# name = "a linear layer and a clamp, copied"
# problem = "linear_relu"
# expect = ["invalid"]
# finding = ["not_causal"]
# where = ["cpu"]
# ///
"""A clamp stands for the ReLU, so that the kernel seems to have it left to do."""

import torch
import triton
import triton.language as tl
from torch import nn
from torch.nn.utils import parametrize


@triton.jit
def copy_kernel(src, dst, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(dst + at, tl.load(src + at, mask=at < n), mask=at < n)


def passed_on(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    n = x.numel()
    copy_kernel[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
    return out


class ModelNew(nn.Module):
    def __init__(self, inner, columns):
        super().__init__()
        self.linear = nn.Linear(inner, columns)

    def forward(self, x):
        return passed_on(nn.functional.linear(x, self.linear.weight, self.linear.bias).clamp_min(0))
