# /// trick
# id = "OK-grid-barrier"
# name = "programs of a cooperative launch wait for each other"
# problem = "column_sum"
# expect = ["right"]
# where = ["cpu", "gpu"]
# ///
"""Each program sums its rows, then all wait for all, then each adds up a few columns of all parts."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def k(x, parts, arrived, y, rows, columns, PROGRAMS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    program = tl.program_id(0)
    for first in range(0, columns, BN):
        column = first + tl.arange(0, BN)
        acc = tl.zeros((BN,), tl.float32)
        for start in range(program * BM, rows, PROGRAMS * BM):
            row = start + tl.arange(0, BM)
            inside = (row[:, None] < rows) & (column[None, :] < columns)
            acc += tl.sum(tl.load(x + row[:, None] * columns + column[None, :], mask=inside, other=0.0), 0)
        tl.store(parts + program * columns + column, acc, mask=column < columns)
    tl.debug_barrier()
    tl.atomic_add(arrived, 1, sem="release")
    while tl.atomic_add(arrived, 0, sem="acquire") < PROGRAMS:
        pass
    part = tl.arange(0, PROGRAMS)
    for first in range(program * BN, columns, PROGRAMS * BN):
        column = first + tl.arange(0, BN)
        inside = (column < columns)[None, :]
        each = tl.load(parts + part[:, None] * columns + column[None, :], mask=inside, other=0.0, cache_modifier=".cg")
        tl.store(y + column, tl.sum(each, 0), mask=column < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        y = torch.empty(columns, device=x.device, dtype=x.dtype)
        parts = torch.empty(16, columns, device=x.device)
        arrived = torch.zeros(1, device=x.device, dtype=torch.int32)
        k[(16,)](x, parts, arrived, y, rows, columns, PROGRAMS=16, BM=32, BN=64, launch_cooperative_grid=True)
        return y
