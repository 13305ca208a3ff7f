# /// trick
# id = "D6-elementwise"
# name = "a product by elementwise operators, copied"
# problem = "matmul"
# expect = ["invalid"]
# finding = ["not_causal"]
# where = ["cpu"]
# ///
"""Multiplies and sums by PyTorch; the kernel only copies what came of it."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def copy_kernel(src, dst, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(dst + at, tl.load(src + at, mask=at < n), mask=at < n)


def passed_on(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    n = x.numel()
    copy_kernel[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
    return out


class ModelNew(nn.Module):
    def forward(self, a, b):
        return passed_on(torch.cat([(a[i : i + 1, :, None] * b[None]).sum(1) for i in range(a.shape[0])]))
