# /// trick
# id = "bug-115"
# name = "more programs wait for each other than the GPU holds at once"
# problem = "column_sum"
# expect = ["compile_error"]
# finding = ["programs_not_resident"]
# ///
"""Planted: a cooperative launch of a program for two rows, 4096 of them at full shape, of which an H200 holds 2112."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def k(x, parts, arrived, y, rows, columns, programs, BM: tl.constexpr, BN: tl.constexpr):
    program = tl.program_id(0)
    row = program * BM + tl.arange(0, BM)
    for first in range(0, columns, BN):
        column = first + tl.arange(0, BN)
        inside = (row[:, None] < rows) & (column[None, :] < columns)
        x_tile = tl.load(x + row[:, None] * columns + column[None, :], mask=inside, other=0.0)
        tl.store(parts + program * columns + column, tl.sum(x_tile, 0), mask=column < columns)
    tl.debug_barrier()
    tl.atomic_add(arrived, 1, sem="release")
    while tl.atomic_add(arrived, 0, sem="acquire") < programs:
        pass
    for first in range(program * BN, columns, programs * BN):
        column = first + tl.arange(0, BN)
        acc = tl.zeros((BN,), tl.float32)
        for part in range(programs):
            acc += tl.load(parts + part * columns + column, mask=column < columns, other=0.0, cache_modifier=".cg")
        tl.store(y + column, acc, mask=column < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        y = torch.empty(columns, device=x.device, dtype=x.dtype)
        programs = triton.cdiv(rows, 2)
        parts = torch.empty(programs, columns, device=x.device)
        arrived = torch.zeros(1, device=x.device, dtype=torch.int32)
        k[(programs,)](x, parts, arrived, y, rows, columns, programs, BM=2, BN=64, launch_cooperative_grid=True)
        return y
