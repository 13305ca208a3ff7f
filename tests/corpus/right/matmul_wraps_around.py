# /// trick
# id = "right-83"
# name = "matrix product whose last tiles begin anew"
# problem = "matmul"
# precision = "ieee"
# expect = ["right"]
# ///
"""Right: indices past the end wrap around, so some elements are computed and stored twice, each time the same."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(a_ptr, b_ptr, out_ptr, M, N, K, TILE: tl.constexpr, INNER: tl.constexpr):
    """out = a @ b; one program, one TILE x TILE tile, no mask on rows and columns."""
    rows = (tl.program_id(0) * TILE + tl.arange(0, TILE)) % M
    columns = (tl.program_id(1) * TILE + tl.arange(0, TILE)) % N
    accumulator = tl.zeros((TILE, TILE), dtype=tl.float32)
    for start in range(0, K, INNER):
        inner = start + tl.arange(0, INNER)
        a = tl.load(a_ptr + rows[:, None] * K + inner[None, :], mask=inner[None, :] < K, other=0.0)
        b = tl.load(b_ptr + inner[:, None] * N + columns[None, :], mask=inner[:, None] < K, other=0.0)
        accumulator = tl.dot(a, b, accumulator, input_precision="ieee")
    tl.store(out_ptr + rows[:, None] * N + columns[None, :], accumulator)


class ModelNew(nn.Module):
    def forward(self, a, b):
        M, K = a.shape
        N = b.shape[1]
        out = torch.empty((M, N), device=a.device, dtype=a.dtype)
        grid = (triton.cdiv(M, 128), triton.cdiv(N, 128))
        matmul_kernel[grid](a, b, out, M, N, K, TILE=128, INNER=32)
        return out
