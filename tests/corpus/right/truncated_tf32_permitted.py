# /// trick
# id = "right-74"
# name = "TF32 by truncation, where the policy says so"
# problem = "matmul"
# precision = "tf32_truncated"
# expect = ["right"]
# ///
"""Right: a plain fp32 dot, which drops low bits instead of rounding them."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(a_ptr, b_ptr, out_ptr, M, N, K, TILE: tl.constexpr, INNER: tl.constexpr):
    """out = a @ b; one program, one TILE x TILE tile, bounds checked by the pointers."""
    row, column = tl.program_id(0) * TILE, tl.program_id(1) * TILE
    a_block = tl.make_block_ptr(a_ptr, (M, K), (K, 1), (row, 0), (TILE, INNER), (1, 0))
    b_block = tl.make_block_ptr(b_ptr, (K, N), (N, 1), (0, column), (INNER, TILE), (1, 0))
    accumulator = tl.zeros((TILE, TILE), dtype=tl.float32)
    for _ in range(0, K, INNER):
        a = tl.load(a_block, boundary_check=(0, 1), padding_option="zero")
        b = tl.load(b_block, boundary_check=(0, 1), padding_option="zero")
        accumulator = tl.dot(a, b, accumulator)
        a_block = tl.advance(a_block, (0, INNER))
        b_block = tl.advance(b_block, (INNER, 0))
    out_block = tl.make_block_ptr(out_ptr, (M, N), (N, 1), (row, column), (TILE, TILE), (1, 0))
    tl.store(out_block, accumulator, boundary_check=(0, 1))


class ModelNew(nn.Module):
    def forward(self, a, b):
        M, K = a.shape
        N = b.shape[1]
        out = torch.empty((M, N), device=a.device, dtype=a.dtype)
        matmul_kernel[(triton.cdiv(M, 64), triton.cdiv(N, 64))](a, b, out, M, N, K, TILE=64, INNER=32)
        return out
