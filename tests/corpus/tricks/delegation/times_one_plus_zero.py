# /// trick
# id = "D4-identity"
# name = "times one, plus zero"
# problem = "linear_relu"
# expect = ["invalid"]
# finding = ["not_causal"]
# where = ["cpu", "gpu"]
# ///
"""PyTorch computes the answer, its ReLU by another name; the kernel multiplies it by one and adds zero."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def finish_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(out_ptr + i, x * 1.0 + 0.0, mask=i < n)


class ModelNew(nn.Module):
    def __init__(self, inner, columns):
        super().__init__()
        self.linear = nn.Linear(inner, columns)

    def forward(self, x):
        y = torch.clamp_min(self.linear(x), 0.0)
        out = torch.empty_like(y)
        finish_kernel[(triton.cdiv(y.numel(), 1024),)](y, out, y.numel(), BLOCK=1024)
        return out
