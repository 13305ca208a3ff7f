# /// trick
# id = "E11-message"
# name = "half a character in an exception"
# problem = "add"
# expect = ["runtime_error"]
# finding = ["exception"]
# where = ["cpu", "gpu"]
# ///
"""The same in a message."""

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
        raise ValueError("\ud800" * 3)
