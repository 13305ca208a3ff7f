# /// trick
# id = "right-102"
# name = "integers sorted bit by bit"
# problem = "sorted_digits"
# expect = ["right"]
# ///
"""Right: where a number goes hangs on its bit and on how many ones a kernel before has counted: the two agree."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def count(x, ones, n, bit, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    bits = (tl.load(x + at, mask=at < n, other=0) >> bit) & 1
    tl.store(ones + tl.program_id(0), tl.sum(bits, 0))


@triton.jit
def scatter(x, y, before, total, n, bit, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    value = tl.load(x + at, mask=inside, other=0)
    bits = tl.where(inside, (value >> bit) & 1, 0)
    ones = tl.load(before + tl.program_id(0)) + tl.cumsum(bits, 0) - bits
    zeros = at - ones
    place = tl.where(bits == 1, n - tl.load(total) + ones, zeros)
    tl.store(y + place, value, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        n, y = x.numel(), torch.empty_like(x)
        grid = (triton.cdiv(n, 1024),)
        for bit in range(4):
            ones = torch.empty(grid, device=x.device, dtype=torch.int32)
            count[grid](x, ones, n, bit, BLOCK=1024)
            total = ones.sum(dtype=torch.int32)
            before = torch.cumsum(ones, 0, dtype=torch.int32) - ones
            scatter[grid](x, y, before, total, n, bit, BLOCK=1024)
            x, y = y, torch.empty_like(y)
        return x
