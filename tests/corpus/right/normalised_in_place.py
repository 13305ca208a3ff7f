# /// trick
# id = "OK-normalised-in-place"
# name = "a second kernel that works in place"
# problem = "linear_row_norm"
# expect = ["right"]
# where = ["cpu", "gpu"]
# ///
"""Honest: rows are normalised where the linear layer left them.
Of a long shape the interpreter runs some of these rows alone; the others hold the linear layer's numbers still."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def linear_kernel(x_ptr, w_ptr, b_ptr, out_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        x = tl.load(x_ptr + m[:, None] * K + k[None, :], mask=(m < M)[:, None] & (k < K)[None, :], other=0.0)
        w = tl.load(w_ptr + n[None, :] * K + k[:, None], mask=(k < K)[:, None] & (n < N)[None, :], other=0.0)
        total = tl.dot(x, w, total, input_precision="ieee")
    total += tl.load(b_ptr + n, mask=n < N, other=0.0)[None, :]
    tl.store(out_ptr + m[:, None] * N + n[None, :], total, mask=(m < M)[:, None] & (n < N)[None, :])


@triton.jit
def normalise_kernel(y_ptr, N, eps, BLOCK: tl.constexpr):
    """One program, one row, over what the linear layer left there."""
    n = tl.arange(0, BLOCK)
    inside = n < N
    y = tl.load(y_ptr + tl.program_id(0) * N + n, mask=inside, other=0.0)
    centred = tl.where(inside, y - tl.sum(y, 0) / N, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, 0) / N + eps)
    tl.store(y_ptr + tl.program_id(0) * N + n, centred * scale, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, inner, columns):
        super().__init__()
        self.linear = nn.Linear(inner, columns)

    def forward(self, x):
        (M, K), N = x.shape, self.linear.out_features
        y = torch.empty((M, N), device=x.device, dtype=x.dtype)
        grid = (triton.cdiv(M, 64), triton.cdiv(N, 64))
        linear_kernel[grid](x, self.linear.weight, self.linear.bias, y, M, N, K, BM=64, BN=64, BK=64)
        normalise_kernel[(M,)](y, N, 1e-5, BLOCK=triton.next_power_of_2(N))
        return y
