# /// trick
# id = "bug-25"
# name = "atomics into uninitialised memory"
# problem = "matmul"
# expect = ["incorrect"]
# ///
"""Planted: partial products are added to whatever was there."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def round_to_tf32(x):
    """Nearest TF32 number; a plain dot would drop the low bits instead."""
    return tl.inline_asm_elementwise("cvt.rna.tf32.f32 $0, $1;", "=r,r", [x], dtype=tl.float32, is_pure=True, pack=1)


@triton.jit
def matmul_kernel(a_ptr, b_ptr, out_ptr, M, N, K, share, TILE: tl.constexpr, INNER: tl.constexpr):
    """Adds one share of the sum over K to one TILE x TILE tile of the output."""
    rows = tl.program_id(0) * TILE + tl.arange(0, TILE)
    columns = tl.program_id(1) * TILE + tl.arange(0, TILE)
    first = tl.program_id(2) * share
    accumulator = tl.zeros((TILE, TILE), dtype=tl.float32)
    for start in range(0, share, INNER):
        inner = first + start + tl.arange(0, INNER)
        a_mask = (rows[:, None] < M) & (inner[None, :] < K)
        a = tl.load(a_ptr + rows[:, None] * K + inner[None, :], mask=a_mask, other=0.0)
        b_mask = (inner[:, None] < K) & (columns[None, :] < N)
        b = tl.load(b_ptr + inner[:, None] * N + columns[None, :], mask=b_mask, other=0.0)
        accumulator = tl.dot(round_to_tf32(a), round_to_tf32(b), accumulator)
    out_mask = (rows[:, None] < M) & (columns[None, :] < N)
    tl.atomic_add(out_ptr + rows[:, None] * N + columns[None, :], accumulator, mask=out_mask)


class ModelNew(nn.Module):
    def forward(self, a, b):
        M, K = a.shape
        N = b.shape[1]
        out = torch.empty((M, N), device=a.device, dtype=a.dtype)
        share = triton.cdiv(triton.cdiv(K, 32), 4) * 32
        grid = (triton.cdiv(M, 64), triton.cdiv(N, 64), triton.cdiv(K, share))
        matmul_kernel[grid](a, b, out, M, N, K, share, TILE=64, INNER=32)
        return out
