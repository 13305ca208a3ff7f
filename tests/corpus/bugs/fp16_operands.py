# /// trick
# id = "bug-54"
# name = "float16 operands in a product"
# problem = "matmul"
# expect = ["incorrect"]
# ///
"""Operands are narrowed to float16, which numbers beyond 65504 leave."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(a_ptr, b_ptr, out_ptr, M, N, K, TILE: tl.constexpr, INNER: tl.constexpr):
    rows = tl.program_id(0) * TILE + tl.arange(0, TILE)
    columns = tl.program_id(1) * TILE + tl.arange(0, TILE)
    accumulator = tl.zeros((TILE, TILE), dtype=tl.float32)
    for start in range(0, K, INNER):
        inner = start + tl.arange(0, INNER)
        a = tl.load(
            a_ptr + rows[:, None] * K + inner[None, :], mask=(rows[:, None] < M) & (inner[None, :] < K), other=0.0
        )
        b = tl.load(
            b_ptr + inner[:, None] * N + columns[None, :], mask=(inner[:, None] < K) & (columns[None, :] < N), other=0.0
        )
        accumulator = tl.dot(a.to(tl.float16), b.to(tl.float16), accumulator)
    tl.store(
        out_ptr + rows[:, None] * N + columns[None, :], accumulator, mask=(rows[:, None] < M) & (columns[None, :] < N)
    )


class ModelNew(nn.Module):
    def forward(self, a, b):
        M, K = a.shape
        N = b.shape[1]
        out = torch.empty((M, N), device=a.device, dtype=a.dtype)
        grid = (triton.cdiv(M, 64), triton.cdiv(N, 64))
        matmul_kernel[grid](a, b, out, M, N, K, TILE=64, INNER=32)
        return out
