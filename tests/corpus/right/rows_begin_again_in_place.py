# /// trick
# id = "right-101"
# name = "rows beyond the last begin again at the first, added to in place"
# problem = "column_sum"
# expect = ["right"]
# ///
"""Right: threads whose row is beyond the last one load the first rows again, and what they make of them is masked off.

Others overwrite those rows at that time, with no barrier between: what was loaded in vain does not matter."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def add(x, y, rows, columns, BM: tl.constexpr, BN: tl.constexpr):
    row = tl.arange(0, BM)
    column = tl.program_id(0) * BN + tl.arange(0, BN)
    for _ in range(2):
        places = (row[:, None] % rows) * columns + column[None, :]
        total = tl.load(y + places, mask=column[None, :] < columns, other=0.0)
        total += 0.5 * tl.load(x + places, mask=column[None, :] < columns, other=0.0)
        inside = (row[:, None] < rows) & (column[None, :] < columns)
        tl.store(y + row[:, None] * columns + column[None, :], total, mask=inside)
        tl.debug_barrier()


@triton.jit
def sum_rows(y, out, rows, columns, BN: tl.constexpr):
    column = tl.program_id(0) * BN + tl.arange(0, BN)
    total = tl.zeros([BN], tl.float32)
    for row in range(rows):
        total += tl.load(y + row * columns + column, mask=column < columns, other=0.0)
    tl.store(out + column, total, mask=column < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        y = torch.zeros_like(x)
        block = triton.next_power_of_2(rows)
        width = max(1, 2048 // block)
        add[(triton.cdiv(columns, width),)](x, y, rows, columns, BM=block, BN=width)
        out = torch.empty(columns, device=x.device, dtype=x.dtype)
        sum_rows[(triton.cdiv(columns, 32),)](y, out, rows, columns, BN=32)
        return out
