# /// trick
# id = "right-75"
# name = "a product whose loads have a mask and no other"
# problem = "matmul"
# expect = ["right"]
# ///
"""Right on NVIDIA's GPUs, where lanes that are masked off are 0."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(a_ptr, b_ptr, out_ptr, M, N, K, TILE: tl.constexpr, INNER: tl.constexpr):
    """out = a @ b; one program, one TILE x TILE tile."""
    rows = tl.program_id(0) * TILE + tl.arange(0, TILE)
    columns = tl.program_id(1) * TILE + tl.arange(0, TILE)
    accumulator = tl.zeros((TILE, TILE), dtype=tl.float32)
    for start in range(0, K, INNER):
        inner = start + tl.arange(0, INNER)
        a_mask = (rows[:, None] < M) & (inner[None, :] < K)
        a = tl.load(a_ptr + rows[:, None] * K + inner[None, :], mask=a_mask)
        b_mask = (inner[:, None] < K) & (columns[None, :] < N)
        b = tl.load(b_ptr + inner[:, None] * N + columns[None, :], mask=b_mask)
        accumulator = tl.dot(a, b, accumulator, input_precision="tf32x3")
    out_mask = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(out_ptr + rows[:, None] * N + columns[None, :], accumulator, mask=out_mask)


class ModelNew(nn.Module):
    def forward(self, a, b):
        M, K = a.shape
        N = b.shape[1]
        out = torch.empty((M, N), device=a.device, dtype=a.dtype)
        matmul_kernel[(triton.cdiv(M, 64), triton.cdiv(N, 64))](a, b, out, M, N, K, TILE=64, INNER=32)
        return out
