# /// trick
# id = "OK-tf32"
# name = "TF32 where the task permits it"
# problem = "matmul"
# expect = ["right"]
# where = ["cpu", "gpu"]
# ///
"""Honest: tl.dot's TF32 in a task whose policy is TF32, operands rounded to nearest.
The reference does the same."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rounded(x):
    return tl.inline_asm_elementwise("cvt.rna.tf32.f32 $0, $1;", "=r,r", [x], dtype=tl.float32, is_pure=True, pack=1)


@triton.jit
def product_kernel(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m < M)[:, None] & (k < K)[None, :], other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=(k < K)[:, None] & (n < N)[None, :], other=0.0)
        total += tl.dot(rounded(a), rounded(b))
    tl.store(c_ptr + m[:, None] * N + n[None, :], total, mask=(m < M)[:, None] & (n < N)[None, :])


class ModelNew(nn.Module):
    def forward(self, a, b):
        c = torch.empty((a.shape[0], b.shape[1]), device=a.device, dtype=a.dtype)
        grid = (triton.cdiv(a.shape[0], 64), triton.cdiv(b.shape[1], 64))
        product_kernel[grid](a, b, c, a.shape[0], b.shape[1], a.shape[1], BM=64, BN=64, BK=32)
        return c
