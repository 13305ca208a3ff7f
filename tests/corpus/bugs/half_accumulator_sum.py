# /// trick
# id = "bug-09"
# name = "sum kept in fp16"
# problem = "column_sum"
# expect = ["incorrect"]
# ///
"""Planted: partial sums in fp16."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def partial_kernel(x_ptr, partial_ptr, n_rows, n, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """One program, one tile; its sums go to a row of their own."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    mask = (rows[:, None] < n_rows) & (columns[None, :] < n)
    x = tl.load(x_ptr + rows[:, None] * n + columns[None, :], mask=mask, other=0.0)
    tl.store(partial_ptr + tl.program_id(0) * n + columns, tl.sum(x.to(tl.float16), axis=0), mask=columns < n)


@triton.jit
def total_kernel(partial_ptr, out_ptr, n_parts, n, PARTS: tl.constexpr, COLUMNS: tl.constexpr):
    """One program, COLUMNS columns: all partial sums."""
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    parts = tl.arange(0, PARTS)
    mask = (parts[:, None] < n_parts) & (columns[None, :] < n)
    partial = tl.load(partial_ptr + parts[:, None] * n + columns[None, :], mask=mask, other=0.0)
    tl.store(out_ptr + columns, tl.sum(partial, axis=0), mask=columns < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.workspace = None

    def forward(self, x):
        rows, n = x.shape
        parts = triton.cdiv(rows, 64)
        if self.workspace is None or self.workspace.shape != (parts, n) or self.workspace.device != x.device:
            self.workspace = torch.empty(parts, n, device=x.device, dtype=x.dtype)
        partial_kernel[(parts, triton.cdiv(n, 64))](x, self.workspace, rows, n, ROWS=64, COLUMNS=64)
        out = torch.empty(n, device=x.device, dtype=x.dtype)
        total_kernel[(triton.cdiv(n, 64),)](
            self.workspace, out, parts, n, PARTS=triton.next_power_of_2(parts), COLUMNS=64
        )
        return out
