# /// trick
# id = "right-34"
# name = "sum of matrices on a 2-D grid"
# problem = "add"
# expect = ["right"]
# ///
"""Right: a tile a program, strides passed in."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_kernel(
    x_ptr, y_ptr, out_ptr, n_rows, n_columns, x_row, x_column, y_row, y_column, out_row, out_column,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """One program, one tile; each tensor by its own strides."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    mask = (rows < n_rows) & (columns < n_columns)
    x = tl.load(x_ptr + rows * x_row + columns * x_column, mask=mask, other=0.0)
    y = tl.load(y_ptr + rows * y_row + columns * y_column, mask=mask, other=0.0)
    tl.store(out_ptr + rows * out_row + columns * out_column, x + y, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        rows, columns = x.shape
        grid = (triton.cdiv(rows, 16), triton.cdiv(columns, 128))
        add_kernel[grid](x, y, out, rows, columns, *x.stride(), *y.stride(), *out.stride(), ROWS=16, COLUMNS=128)
        return out
