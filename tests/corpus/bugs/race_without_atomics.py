# /// trick
# id = "bug-24"
# name = "partial sums without atomics"
# problem = "column_sum"
# expect = ["incorrect"]
# ///
"""Planted: programs read, add and write one element at a time of their own choosing."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sum_kernel(x_ptr, out_ptr, n_rows, n, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """One program, one tile of rows; partial sums meet in the output."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    mask = (rows[:, None] < n_rows) & (columns[None, :] < n)
    x = tl.load(x_ptr + rows[:, None] * n + columns[None, :], mask=mask, other=0.0)
    before = tl.load(out_ptr + columns, mask=columns < n, other=0.0)
    tl.store(out_ptr + columns, before + tl.sum(x, axis=0), mask=columns < n)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, n = x.shape
        out = torch.zeros(n, device=x.device, dtype=x.dtype)
        sum_kernel[(triton.cdiv(rows, 64), triton.cdiv(n, 64))](x, out, rows, n, ROWS=64, COLUMNS=64)
        return out
