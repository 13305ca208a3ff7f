# /// trick
# id = "OK-partial"
# name = "a decorator with its options bound"
# problem = "add"
# expect = ["right"]
# where = ["cpu", "gpu"]
# ///
"""functools.partial(triton.jit, ...) decorates the kernel."""

import functools

import torch
import triton
import triton.language as tl
from torch import nn

quiet = functools.partial(triton.jit, do_not_specialize=["n"])


@quiet
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
        return add(x, y)
