# /// trick
# id = "OK-last-block"
# name = "the last block adds up"
# problem = "column_sum"
# expect = ["right"]
# where = ["cpu", "gpu"]
# ///
"""Parts go through a workspace; a counter tells which program comes last."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def k(x, parts, count, y, rows, columns, SPLITS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    column, part = tl.program_id(0) * BN + tl.arange(0, BN), tl.program_id(1)
    inside = column < columns
    acc = tl.zeros((BN,), tl.float32)
    for start in range(part * BM, rows, SPLITS * BM):
        row = start + tl.arange(0, BM)
        acc += tl.sum(
            tl.load(
                x + row[:, None] * columns + column[None, :], mask=(row[:, None] < rows) & inside[None, :], other=0.0
            ),
            0,
        )
    tl.store(parts + part * columns + column, acc, mask=inside)
    tl.debug_barrier()
    done = tl.atomic_add(count + tl.program_id(0), 1)
    if done == SPLITS - 1:
        total = tl.zeros((BN,), tl.float32)
        for i in tl.static_range(SPLITS):
            total += tl.load(parts + i * columns + column, mask=inside, other=0.0, cache_modifier=".cg")
        tl.store(y + column, total, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        y = torch.empty(columns, device=x.device, dtype=x.dtype)
        parts = torch.empty(8, columns, device=x.device)
        blocks = triton.cdiv(columns, 64)
        count = torch.zeros(blocks, device=x.device, dtype=torch.int32)
        k[(blocks, 8)](x, parts, count, y, rows, columns, SPLITS=8, BM=32, BN=64)
        return y
