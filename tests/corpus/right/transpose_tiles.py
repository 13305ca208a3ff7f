# /// trick
# id = "right-35"
# name = "transpose by tiles"
# problem = "transpose"
# expect = ["right"]
# ///
"""Right: reads and writes are both along rows."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def transpose_kernel(x_ptr, out_ptr, n_rows, n_columns, TILE: tl.constexpr):
    """One program, one tile, turned in registers."""
    rows = tl.program_id(0) * TILE + tl.arange(0, TILE)
    columns = tl.program_id(1) * TILE + tl.arange(0, TILE)
    mask = (rows[:, None] < n_rows) & (columns[None, :] < n_columns)
    x = tl.load(x_ptr + rows[:, None] * n_columns + columns[None, :], mask=mask, other=0.0)
    turned = (columns[:, None] < n_columns) & (rows[None, :] < n_rows)
    tl.store(out_ptr + columns[:, None] * n_rows + rows[None, :], tl.trans(x), mask=turned)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        out = torch.empty((columns, rows), device=x.device, dtype=x.dtype)
        transpose_kernel[(triton.cdiv(rows, 32), triton.cdiv(columns, 32))](x, out, rows, columns, TILE=32)
        return out
