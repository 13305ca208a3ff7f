# /// trick
# id = "bug-79"
# name = "loop cut at 4096 rows"
# problem = "column_sum"
# expect = ["incorrect"]
# ///
"""Planted: the loop over rows ends at 4096 of them."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sum_kernel(x_ptr, out_ptr, n_rows, n, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """One program, COLUMNS columns, ROWS rows at a time."""
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((COLUMNS,), dtype=tl.float32)
    for start in range(0, n_rows, ROWS):
        rows = start + tl.arange(0, ROWS)
        mask = (rows[:, None] < n_rows) & (columns[None, :] < n)
        total += tl.sum(tl.load(x_ptr + rows[:, None] * n + columns[None, :], mask=mask, other=0.0), axis=0)
    tl.store(out_ptr + columns, total, mask=columns < n)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, n = x.shape
        out = torch.empty(n, device=x.device, dtype=x.dtype)
        sum_kernel[(triton.cdiv(n, 64),)](x, out, min(rows, 4096), n, ROWS=64, COLUMNS=64)
        return out
