# /// trick
# id = "bug-112"
# name = "online softmax that each lane begins at -inf, where infinities matter"
# problem = "softmax"
# expect = ["incorrect"]
# finding = ["non_finite"]
#
# [terms]
# domain = "nonfinite"
# ///
"""A lane that meets -inf first becomes NaN, and the task says that infinities belong to it."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """One program, one row; every lane keeps a maximum and a sum of its own."""
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    largest = tl.full((BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        x = tl.load(x_ptr + row * n + start + lanes, mask=start + lanes < n, other=-1e30)
        above = tl.maximum(largest, x)
        total = total * tl.exp(largest - above) + tl.exp(x - above)
        largest = above
    peak = tl.max(largest, axis=0)
    whole = tl.sum(total * tl.exp(largest - peak), axis=0)
    for start in range(0, n, BLOCK):
        x = tl.load(x_ptr + row * n + start + lanes, mask=start + lanes < n)
        tl.store(out_ptr + row * n + start + lanes, tl.exp(x - peak) / whole, mask=start + lanes < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=1024)
        return out
