# /// trick
# id = "B13-ring"
# name = "a ring of answers, filled anew"
# problem = "add"
# expect = ["incorrect"]
# finding = ["aliased_output"]
# where = ["cpu"]
# ///
"""Each answer's memory is used again some calls later."""

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
    def __init__(self):
        super().__init__()
        self.calls, self.rings = 0, {}

    def forward(self, x, y):
        self.calls += 1
        kept = self.rings.setdefault(x.shape, [])
        if len(kept) < 64:
            kept.append(torch.empty_like(x))
        z = kept[self.calls % len(kept)]
        add_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, z, x.numel(), BLOCK=1024)
        return z
