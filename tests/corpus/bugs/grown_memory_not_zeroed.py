# /// trick
# id = "bug-74"
# name = "memory that was grown is taken for zeros"
# problem = "column_sum"
# expect = ["incorrect"]
# where = ["cpu"]
# ///
"""Planted: a kernel adds to memory that resize_ gave, and nobody wrote."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sum_kernel(x_ptr, out_ptr, n_rows, n, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    mask = (rows[:, None] < n_rows) & (columns[None, :] < n)
    x = tl.load(x_ptr + rows[:, None] * n + columns[None, :], mask=mask, other=0.0)
    tl.atomic_add(out_ptr + columns, tl.sum(x, axis=0), mask=columns < n)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, n = x.shape
        scratch = torch.zeros(0, device=x.device, dtype=x.dtype).resize_(n)
        sum_kernel[(triton.cdiv(rows, 64), triton.cdiv(n, 64))](x, scratch, rows, n, ROWS=64, COLUMNS=64)
        return scratch[:n].clone()
