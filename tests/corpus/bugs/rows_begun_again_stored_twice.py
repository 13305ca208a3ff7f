# /// trick
# id = "bug-116"
# name = "rows beyond the last one are added to the first ones again"
# problem = "column_sum"
# expect = ["incorrect"]
# where = ["cpu"]
# ///
"""Planted: threads whose row is beyond the last one begin again at the first, and nothing masks off what they store.

Whether they load a row before or after it was added to, no barrier decides."""

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
        tl.store(y + places, total, mask=column[None, :] < columns)
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
