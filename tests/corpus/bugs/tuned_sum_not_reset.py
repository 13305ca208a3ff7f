# /// trick
# id = "bug-72"
# name = "tuning runs add up"
# problem = "column_sum"
# expect = ["incorrect"]
# where = ["cpu"]
# ///
"""Planted: an autotuned kernel adds to its output, which nobody names in reset_to_zero."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"ROWS": 32}), triton.Config({"ROWS": 64})], key=["n"])
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
        out = torch.zeros(n, device=x.device, dtype=x.dtype)
        sum_kernel[lambda meta: (triton.cdiv(rows, meta["ROWS"]), triton.cdiv(n, 64))](x, out, rows, n, COLUMNS=64)
        return out
