# /// trick
# id = "bug-04"
# name = "row mask missing"
# problem = "rms_norm"
# expect = ["incorrect", "runtime_error"]
# ///
"""Planted: rows are unmasked; right where four divides their number."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rms_norm_kernel(x_ptr, weight_ptr, out_ptr, n_rows, n, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """One program, ROWS rows."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, BLOCK)
    mask = (rows[:, None] < n_rows + ROWS) & (columns[None, :] < n)
    where = rows[:, None] * n + columns[None, :]
    x = tl.load(x_ptr + where, mask=mask, other=0.0)
    mean_square = tl.sum(x * x, axis=1) / n
    scale = 1.0 / tl.sqrt(mean_square + eps)
    weight = tl.load(weight_ptr + columns, mask=columns < n, other=0.0)
    tl.store(out_ptr + where, x * scale[:, None] * weight[None, :], mask=mask)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))

    def forward(self, x):
        out = torch.empty_like(x)
        rows, n = x.shape
        block = triton.next_power_of_2(n)
        rms_norm_kernel[(triton.cdiv(rows, 4),)](x, self.weight, out, rows, n, 1e-2, ROWS=4, BLOCK=block)
        return out
