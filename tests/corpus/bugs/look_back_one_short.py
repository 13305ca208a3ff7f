# /// trick
# id = "bug-109"
# name = "look-back that leaves out the first block"
# problem = "cumulative_sum"
# expect = ["incorrect"]
# ///
"""Planted: the look-back ends before the first block."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def cumsum_kernel(x_ptr, out_ptr, state_ptr, columns, blocks, BLOCK: tl.constexpr):
    """One program, one block of one row.

    It publishes the sum of its block, and looks back from block to block until one knows the sum of all before it.
    """
    row, number = tl.program_id(0) // blocks, tl.program_id(0) % blocks
    places = number * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + places, mask=places < columns, other=0.0)
    own = tl.sum(x, axis=0)
    sums_ptr = state_ptr + 3 * row * blocks
    totals_ptr, flags_ptr = sums_ptr + blocks, sums_ptr + 2 * blocks
    tl.store(sums_ptr + number, own)
    tl.debug_barrier()
    tl.atomic_xchg(flags_ptr + number, 1.0, sem="release")
    before = 0.0
    back = number - 1
    while back > 0:
        flag = tl.atomic_add(flags_ptr + back, 0.0, sem="acquire")
        while flag == 0.0:
            flag = tl.atomic_add(flags_ptr + back, 0.0, sem="acquire")
        if flag == 2.0:
            before += tl.load(totals_ptr + back)
            back = -1
        else:
            before += tl.load(sums_ptr + back)
            back -= 1
    tl.store(totals_ptr + number, before + own)
    tl.debug_barrier()
    tl.atomic_xchg(flags_ptr + number, 2.0, sem="release")
    tl.store(out_ptr + row * columns + places, before + tl.cumsum(x, axis=0), mask=places < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        out = torch.empty_like(x)
        blocks = triton.cdiv(columns, 128)
        state = torch.zeros(rows, 3, blocks, device=x.device)
        cumsum_kernel[(rows * blocks,)](x, out, state, columns, blocks, BLOCK=128)
        return out
