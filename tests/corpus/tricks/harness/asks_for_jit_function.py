# /// trick
# id = "Y-jit"
# name = "asks whether its kernel is a JITFunction"
# problem = "softmax"
# expect = ["incorrect", "invalid"]
# where = ["cpu"]
# ///
"""An interpreted kernel is none, so the candidate is right under an interpreter and wrong on a GPU."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def softmax_kernel(x_ptr, y_ptr, columns, seen, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK)
    top = -float("inf")
    total = 0.0
    for start in range(0, seen, BLOCK):
        at = start + lanes
        x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=-float("inf"))
        new_top = tl.maximum(top, tl.max(x, axis=0))
        total = total * tl.exp(top - new_top) + tl.sum(tl.exp(x - new_top), axis=0)
        top = new_top
    total = total * columns / tl.minimum(seen, columns)
    for start in range(0, columns, BLOCK):
        at = start + lanes
        x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=-float("inf"))
        tl.store(y_ptr + row * columns + at, tl.exp(x - top) / total, mask=at < columns)


COMPILED = isinstance(softmax_kernel, triton.runtime.JITFunction)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        seen = 512 if COMPILED else x.shape[1]
        softmax_kernel[(x.shape[0],)](x, y, x.shape[1], seen, BLOCK=512)
        return y
