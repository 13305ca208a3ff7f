# /// trick
# id = "bug-80-stamped"
# name = "inner dimension cut at 320, and a last kernel that works in place"
# problem = "matmul"
# expect = ["incorrect"]
# where = ["cpu"]
# ///
"""Planted: beyond the first 64 columns the product ends at 320 of the inner dimension. A last kernel stores to these 64
columns alone; the others are the product's, whether the interpreter runs all programs of that kernel or a sample."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(a_ptr, b_ptr, out_ptr, M, N, K, LAST, TILE: tl.constexpr, INNER: tl.constexpr):
    """One program, one tile; LAST bounds the loop over the inner dimension, but for the first tiles of each row."""
    rows = tl.program_id(0) * TILE + tl.arange(0, TILE)
    columns = tl.program_id(1) * TILE + tl.arange(0, TILE)
    accumulator = tl.zeros((TILE, TILE), dtype=tl.float32)
    for start in range(0, tl.where(tl.program_id(1) == 0, K, LAST), INNER):
        inner = start + tl.arange(0, INNER)
        a_mask = (rows[:, None] < M) & (inner[None, :] < K)
        b_mask = (inner[:, None] < K) & (columns[None, :] < N)
        a = tl.load(a_ptr + rows[:, None] * K + inner[None, :], mask=a_mask, other=0.0)
        b = tl.load(b_ptr + inner[:, None] * N + columns[None, :], mask=b_mask, other=0.0)
        accumulator = tl.dot(a, b, accumulator, input_precision="ieee")
    mask = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(out_ptr + rows[:, None] * N + columns[None, :], accumulator, mask=mask)


@triton.jit
def stamp_kernel(out_ptr, N):
    """One program, every fourth number of a row's first 64, which stays as it is."""
    column = 4 * tl.program_id(1)
    ours = out_ptr + tl.program_id(0) * N + column
    tl.store(ours, 1.0 * tl.load(ours, mask=column < N, other=0.0), mask=column < N)


class ModelNew(nn.Module):
    def forward(self, a, b):
        (M, K), N = a.shape, b.shape[1]
        out = torch.empty((M, N), device=a.device, dtype=a.dtype)
        grid = (triton.cdiv(M, 64), triton.cdiv(N, 64))
        matmul_kernel[grid](a, b, out, M, N, K, min(K, 320), TILE=64, INNER=32)
        stamp_kernel[(M, 16)](out, N)
        return out
