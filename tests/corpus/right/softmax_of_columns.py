# /// trick
# id = "right-04"
# name = "softmax of columns, strides passed in"
# problem = "softmax_square"
# expect = ["right"]
# ///
"""Right: strides are arguments."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(
    x_ptr, out_ptr, n_rows, n_columns, stride_row, stride_column, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """One program, COLUMNS columns: a running maximum and sum down the rows, then the quotient."""
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    largest = tl.full((COLUMNS,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((COLUMNS,), dtype=tl.float32)
    for start in range(0, n_rows, ROWS):
        rows = start + tl.arange(0, ROWS)
        mask = (rows[:, None] < n_rows) & (columns[None, :] < n_columns)
        where = rows[:, None] * stride_row + columns[None, :] * stride_column
        x = tl.load(x_ptr + where, mask=mask, other=-1e30)
        now = tl.maximum(largest, tl.max(x, axis=0))
        total = total * tl.exp(largest - now) + tl.sum(tl.where(mask, tl.exp(x - now[None, :]), 0.0), axis=0)
        largest = now
    for start in range(0, n_rows, ROWS):
        rows = start + tl.arange(0, ROWS)
        mask = (rows[:, None] < n_rows) & (columns[None, :] < n_columns)
        where = rows[:, None] * stride_row + columns[None, :] * stride_column
        x = tl.load(x_ptr + where, mask=mask, other=-1e30)
        tl.store(out_ptr + where, tl.exp(x - largest[None, :]) / total[None, :], mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        rows, columns = x.shape
        grid = (triton.cdiv(columns, 32),)
        softmax_kernel[grid](x, out, rows, columns, x.stride(0), x.stride(1), ROWS=64, COLUMNS=32)
        return out
