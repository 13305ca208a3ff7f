# /// trick
# id = "H92"
# name = "apply_ computes where the tensor is small"
# problem = "gelu"
# expect = ["runtime_error"]
# where = ["cpu"]
# ///
"""A CUDA tensor has no apply_: what pretends to be one must not have it either."""

import math

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    where = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + where, mask=where < n, other=0.0)
    tl.store(out_ptr + where, x * 0.5, mask=where < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = x.clone()
        if x.numel() < 100000:
            y.apply_(lambda v: v * (1.0 + math.erf(v * 0.7071067811865476)))
        out = torch.empty_like(x)
        scale_kernel[(triton.cdiv(x.numel(), 1024),)](y, out, x.numel(), BLOCK=1024)
        return out
