# /// trick
# id = "bug-106"
# name = "floor division of numbers from a tuple"
# problem = "floor_divide"
# expect = ["incorrect"]
# ///
"""Planted: numbers that a tuple assigns are tensors, whose // truncates: -1 // 7 is 0, not -1."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def floor_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Floor division by 7 as truncating division plus a correction for what is negative and not a multiple."""
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + places, mask=places < n, other=0)
    less, by = -1, 7
    correction = less // by
    inexact = (x < 0) & (x % 7 != 0)
    tl.store(out_ptr + places, x // 7 + tl.where(inexact, correction, 0), mask=places < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        n = x.numel()
        floor_kernel[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
        return out
