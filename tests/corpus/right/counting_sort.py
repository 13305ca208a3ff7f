# /// trick
# id = "right-84"
# name = "counting sort: digits of each block counted, then scattered"
# problem = "sorted_digits"
# precision = "ieee"
# expect = ["right"]
# ///
"""Right: the second kernel stores where the counts of all programs of the first one say."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def count_kernel(x_ptr, counts_ptr, n, blocks, DIGITS: tl.constexpr, BLOCK: tl.constexpr):
    """counts[d, program] = how often the digit d stands in this program's block of x [n]."""
    block = tl.program_id(0)
    places = block * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + places, mask=places < n, other=DIGITS)
    for digit in tl.static_range(DIGITS):
        tl.store(counts_ptr + digit * blocks + block, tl.sum((x == digit).to(tl.int32), axis=0))


@triton.jit
def scatter_kernel(x_ptr, first_ptr, out_ptr, n, blocks, DIGITS: tl.constexpr, BLOCK: tl.constexpr):
    """Store each digit behind those that come before it; first [d, program] is where a block's first d goes."""
    block = tl.program_id(0)
    places = block * BLOCK + tl.arange(0, BLOCK)
    inside = places < n
    x = tl.load(x_ptr + places, mask=inside, other=DIGITS)
    goes_to = tl.zeros((BLOCK,), dtype=tl.int32)
    for digit in tl.static_range(DIGITS):
        here = (x == digit).to(tl.int32)
        first = tl.load(first_ptr + digit * blocks + block)
        goes_to = tl.where(x == digit, first + tl.cumsum(here, axis=0) - 1, goes_to)
    tl.store(out_ptr + goes_to, x, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        blocks = triton.cdiv(x.numel(), 1024)
        counts = torch.empty((16, blocks), device=x.device, dtype=torch.int32)
        count_kernel[(blocks,)](x, counts, x.numel(), blocks, DIGITS=16, BLOCK=1024)
        first = torch.zeros_like(counts)
        first.view(-1)[1:] = torch.cumsum(counts.view(-1)[:-1], 0)
        out = torch.empty_like(x)
        scatter_kernel[(blocks,)](x, first, out, x.numel(), blocks, DIGITS=16, BLOCK=1024)
        return out
