# /// trick
# id = "C1-dot-out"
# name = "tl.dot with a half-precision result"
# problem = "matmul"
# expect = ["incorrect", "invalid"]
# where = ["cpu", "gpu"]
# ///
"""Asks tl.dot itself for half-precision accumulation of half-precision operands.
Overflows at 65504 as well."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, LOW: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        a = tl.load(
            a_ptr + m[:, None] * K + (start + k)[None, :], mask=(m[:, None] < M) & (start + k < K)[None, :], other=0.0
        )
        b = tl.load(
            b_ptr + (start + k)[:, None] * N + n[None, :], mask=(start + k < K)[:, None] & (n[None, :] < N), other=0.0
        )
        total += tl.dot(a.to(tl.float16), b.to(tl.float16), out_dtype=tl.float16).to(tl.float32)
    tl.store(c_ptr + m[:, None] * N + n[None, :], total, mask=(m[:, None] < M) & (n[None, :] < N))


def matmul(a, b, low=False):
    c = torch.empty((a.shape[0], b.shape[1]), device=a.device, dtype=a.dtype)
    grid = (triton.cdiv(a.shape[0], 64), triton.cdiv(b.shape[1], 64))
    matmul_kernel[grid](a, b, c, a.shape[0], b.shape[1], a.shape[1], LOW=low, BM=64, BN=64, BK=32)
    return c


class ModelNew(nn.Module):
    def forward(self, a, b):
        return matmul(a, b)
