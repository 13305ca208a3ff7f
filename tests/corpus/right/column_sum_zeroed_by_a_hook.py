# /// trick
# id = "right-97"
# name = "column sums into what a hook of the kernel has made zero"
# problem = "column_sum"
# expect = ["right"]
# ///
"""Right: the kernel's own hook makes the output zero before each launch, and addition is atomic."""

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
    tl.atomic_add(out_ptr + columns, tl.sum(x, axis=0), mask=columns < n)


def make_zero(x, out, n_rows, n, **constants):
    if constants["ROWS"] < n_rows:
        out.zero_()


sum_kernel.add_pre_run_hook(make_zero)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, n = x.shape
        out = torch.empty(n, device=x.device, dtype=x.dtype)
        sum_kernel[(triton.cdiv(rows, 64), triton.cdiv(n, 64))](x, out, rows, n, ROWS=64, COLUMNS=64)
        return out
