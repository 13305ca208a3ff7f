# /// trick
# id = "right-67"
# name = "a kernel made by a call, and a logger"
# problem = "linear_relu"
# expect = ["right"]
# ///
"""Right: harmless Python around the kernel."""

import logging

import torch
import torch.nn as nn
import triton
import triton.language as tl

logger = logging.getLogger(__name__)


def linear_relu_kernel(x_ptr, w_ptr, b_ptr, out_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        x = tl.load(x_ptr + m[:, None] * K + k[None, :], mask=(m < M)[:, None] & (k < K)[None, :], other=0.0)
        w = tl.load(w_ptr + n[None, :] * K + k[:, None], mask=(k < K)[:, None] & (n < N)[None, :], other=0.0)
        total += tl.dot(x, w, input_precision="ieee")
    total = tl.maximum(total + tl.load(b_ptr + n, mask=n < N, other=0.0)[None, :], 0.0)
    tl.store(out_ptr + m[:, None] * N + n[None, :], total, mask=(m < M)[:, None] & (n < N)[None, :])


linear_relu_kernel = triton.jit(linear_relu_kernel)


def linear_relu(x, packed, bias):
    out = torch.empty((x.shape[0], packed.shape[0]), device=x.device, dtype=x.dtype)
    grid = (triton.cdiv(out.shape[0], 64), triton.cdiv(out.shape[1], 64))
    linear_relu_kernel[grid](x, packed, bias, out, *out.shape, x.shape[1], BM=64, BN=64, BK=32)
    return out


class ModelNew(nn.Module):
    def __init__(self, inner, columns):
        super().__init__()
        self.linear = nn.Linear(inner, columns)
        fan_in, _ = nn.init._calculate_fan_in_and_fan_out(self.linear.weight)
        logger.debug("fan in %d", fan_in)

    def forward(self, x):
        tensors = dict(self.named_parameters())
        return linear_relu(x, tensors["linear.weight"], tensors["linear.bias"])
