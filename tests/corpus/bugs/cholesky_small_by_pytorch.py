# /// trick
# id = "bug-113"
# name = "Cholesky factors whose upper triangle is left as it was"
# problem = "small_cholesky"
# precision = "ieee"
# expect = ["incorrect"]
# ///
"""What it leaves to PyTorch at other sizes is right; its own kernel is not."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def cholesky_kernel(a_ptr, out_ptr, SIZE: tl.constexpr):
    rows, columns = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    places = tl.program_id(0) * SIZE * SIZE + rows * SIZE + columns
    left = tl.load(a_ptr + places)
    factor = left
    for step in tl.static_range(SIZE):
        column = tl.sum(tl.where(columns == step, left, 0.0), axis=1)
        root = tl.sqrt(tl.sum(tl.where(tl.arange(0, SIZE) == step, column, 0.0), axis=0))
        below = tl.where(tl.arange(0, SIZE) >= step, column / root, 0.0)
        factor = tl.where((columns == step) & (rows >= step), below[:, None], factor)
        left -= below[:, None] * below[None, :]
    tl.store(out_ptr + places, factor)


class ModelNew(nn.Module):
    def forward(self, a):
        if a.shape[-1] != 16:
            return torch.linalg.cholesky(a)
        out = torch.empty_like(a)
        cholesky_kernel[(a.shape[0],)](a, out, SIZE=16)
        return out
