# /// trick
# id = "right-86"
# name = "a transpose between two products of the library"
# problem = "turned_product"
# precision = "ieee"
# expect = ["right"]
# ///
"""The kernel makes the movement that the reference makes, and nothing else."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def turn_kernel(x_ptr, out_ptr, rows, columns, TILE: tl.constexpr):
    """out [columns, rows] = x [rows, columns], transposed; one program, one tile."""
    row = tl.program_id(0) * TILE + tl.arange(0, TILE)
    column = tl.program_id(1) * TILE + tl.arange(0, TILE)
    inside = (row[:, None] < rows) & (column[None, :] < columns)
    x = tl.load(x_ptr + row[:, None] * columns + column[None, :], mask=inside)
    tl.store(out_ptr + column[None, :] * rows + row[:, None], x, mask=inside)


class ModelNew(nn.Module):
    def forward(self, a, b, c):
        product = a @ b
        rows, columns = product.shape
        turned = torch.empty(columns, rows, dtype=product.dtype, device=product.device)
        turn_kernel[(triton.cdiv(rows, 32), triton.cdiv(columns, 32))](product, turned, rows, columns, TILE=32)
        return turned @ c
