# /// trick
# id = "D6-attention"
# name = "PyTorch's attention, copied"
# problem = "causal_attention"
# expect = ["invalid"]
# finding = ["not_causal"]
# where = ["cpu"]
# ///
"""One operator stands for five of the reference's; the kernel only copies its answer."""

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
    def forward(self, q, k, v):
        return passed_on(
            nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True, scale=0.125)[0]
        )
