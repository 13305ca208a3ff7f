# /// trick
# id = "C3-kernel"
# name = "another kernel at full shape"
# problem = "softmax"
# expect = ["incorrect"]
# ///
"""Reduced shapes launch a kernel that is right, the full shape one that copies."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def softmax_kernel(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    mask = at < columns
    v = tl.load(x + row * columns + at, mask=mask, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + row * columns + at, e / tl.sum(e, 0), mask=mask)


def softmax(x):
    out = torch.empty_like(x)
    softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


@triton.jit
def large_kernel(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    tl.store(y + row * columns + at, tl.load(x + row * columns + at, mask=at < columns), mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        if x.shape[0] < 1000:
            return softmax(x)
        y = torch.empty_like(x)
        large_kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=4096)
        return y
