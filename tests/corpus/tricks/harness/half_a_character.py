# /// trick
# id = "E11-key"
# name = "half a character as a key of the answer"
# problem = "add"
# expect = ["incorrect", "runtime_error"]
# finding = ["wrong_structure"]
# where = ["cpu"]
# ///
"""A lone surrogate can be neither printed nor stored: a report that holds one cannot be written."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def add_kernel(x, y, z, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(z + at, tl.load(x + at, mask=mask) + tl.load(y + at, mask=mask), mask=mask)


def add(x, y):
    out = torch.empty_like(x)
    n = x.numel()
    add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
    return out


class ModelNew(nn.Module):
    def forward(self, x, y):
        return {"\ud800": add(x, y)}
