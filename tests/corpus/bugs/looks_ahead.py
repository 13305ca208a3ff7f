# /// trick
# id = "bug-110"
# name = "a wait for later programs"
# problem = "cumulative_sum"
# expect = ["timeout", "incorrect"]
# ///
"""Planted: a block waits for the one after it, which need not run before this one ends."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def cumsum_kernel(x_ptr, out_ptr, state_ptr, columns, blocks, BLOCK: tl.constexpr):
    """One program, one block of one row; the sum of the row, less what is behind the block."""
    row, number = tl.program_id(0) // blocks, tl.program_id(0) % blocks
    places = number * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + places, mask=places < columns, other=0.0)
    state_ptr += 2 * row
    tl.atomic_add(state_ptr, tl.sum(x, axis=0), sem="release")
    tl.atomic_add(state_ptr + 1, 1.0, sem="acq_rel")
    done = 0.0
    while done < blocks:
        done = tl.atomic_add(state_ptr + 1, 0.0, sem="acquire")
    before = 0.0
    for earlier in range(number):
        others = earlier * BLOCK + tl.arange(0, BLOCK)
        before += tl.sum(tl.load(x_ptr + row * columns + others), axis=0)
    total = tl.atomic_add(state_ptr, 0.0)
    tl.store(out_ptr + row * columns + places, before + tl.cumsum(x, axis=0), mask=(places < columns) & (total > 0))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        out = torch.empty_like(x)
        blocks = triton.cdiv(columns, 128)
        state = torch.zeros(rows, 2, device=x.device)
        cumsum_kernel[(rows * blocks,)](x, out, state, columns, blocks, BLOCK=128)
        return out
