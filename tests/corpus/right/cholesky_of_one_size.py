# /// trick
# id = "right-78"
# name = "Cholesky factors by its own kernel at one size, by PyTorch at others"
# problem = "small_cholesky"
# precision = "ieee"
# expect = ["right"]
# ///
"""Right: the kernel is for matrices of 16 rows, and what it does not take goes to PyTorch."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def cholesky_kernel(a_ptr, out_ptr, SIZE: tl.constexpr):
    """One program, one matrix: column after column is divided by its root and taken off what is right of it."""
    rows, columns = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    places = tl.program_id(0) * SIZE * SIZE + rows * SIZE + columns
    left = tl.load(a_ptr + places)
    factor = tl.zeros((SIZE, SIZE), tl.float32)
    for step in tl.static_range(SIZE):
        column = tl.sum(tl.where(columns == step, left, 0.0), axis=1)
        root = tl.sqrt(tl.sum(tl.where(tl.arange(0, SIZE) == step, column, 0.0), axis=0))
        below = tl.where(tl.arange(0, SIZE) >= step, column / root, 0.0)
        factor = tl.where(columns == step, below[:, None], factor)
        left -= below[:, None] * below[None, :]
    tl.store(out_ptr + places, factor)


class ModelNew(nn.Module):
    def forward(self, a):
        if a.shape[-1] != 16:
            return torch.linalg.cholesky(a)
        out = torch.empty_like(a)
        cholesky_kernel[(a.shape[0],)](a, out, SIZE=16)
        return out
