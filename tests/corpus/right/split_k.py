# /// trick
# id = "OK-split-k"
# name = "split-K with atomics"
# problem = "matmul"
# expect = ["right"]
# where = ["cpu", "gpu"]
# ///
"""Honest: partial products added with atomics into zeros, in no fixed order.
Errors stay within rounding."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def split_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, SPLIT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(tl.program_id(2) * BK, K, SPLIT * BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m < M)[:, None] & (k < K)[None, :], other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=(k < K)[:, None] & (n < N)[None, :], other=0.0)
        total += tl.dot(a, b, input_precision="ieee")
    tl.atomic_add(c_ptr + m[:, None] * N + n[None, :], total, mask=(m < M)[:, None] & (n < N)[None, :])


class ModelNew(nn.Module):
    def forward(self, a, b):
        c = torch.zeros((a.shape[0], b.shape[1]), device=a.device, dtype=a.dtype)
        grid = (triton.cdiv(a.shape[0], 64), triton.cdiv(b.shape[1], 64), 4)
        split_kernel[grid](a, b, c, a.shape[0], b.shape[1], a.shape[1], SPLIT=4, BM=64, BN=64, BK=32)
        return c
