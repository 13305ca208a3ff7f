# /// trick
# id = "bug-71"
# name = "scratch memory read without a barrier"
# problem = "transpose"
# expect = ["incorrect"]
# where = ["cpu"]
# ///
"""Planted: threads of one program exchange values through memory, and do not wait for each other."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def transpose_kernel(x_ptr, scratch_ptr, out_ptr, n_rows, n_columns, TILE: tl.constexpr):
    at = tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)
    scratch = scratch_ptr + at * TILE * TILE
    i = tl.arange(0, TILE)
    rows = tl.program_id(0) * TILE + i
    columns = tl.program_id(1) * TILE + i
    mask = (rows[:, None] < n_rows) & (columns[None, :] < n_columns)
    x = tl.load(x_ptr + rows[:, None] * n_columns + columns[None, :], mask=mask, other=0.0)
    tl.store(scratch + i[:, None] * TILE + i[None, :], x)
    y = tl.load(scratch + i[None, :] * TILE + i[:, None])
    turned = (columns[:, None] < n_columns) & (rows[None, :] < n_rows)
    tl.store(out_ptr + columns[:, None] * n_rows + rows[None, :], y, mask=turned)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        out = torch.empty((columns, rows), device=x.device, dtype=x.dtype)
        grid = (triton.cdiv(rows, 64), triton.cdiv(columns, 64))
        scratch = torch.empty(grid[0] * grid[1] * 4096, device=x.device, dtype=x.dtype)
        transpose_kernel[grid](x, scratch, out, rows, columns, TILE=64)
        return out
