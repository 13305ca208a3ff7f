# /// trick
# id = "bug-52"
# name = "scale without its sign"
# problem = "rms_norm"
# expect = ["incorrect"]
# ///
"""The scale is taken by its absolute value."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rms_norm_kernel(x_ptr, weight_ptr, out_ptr, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    mask = columns < n
    x = tl.load(x_ptr + row * n + columns, mask=mask, other=0.0)
    scale = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) / n + eps)
    weight = tl.abs(tl.load(weight_ptr + columns, mask=mask, other=0.0))
    tl.store(out_ptr + row * n + columns, x * scale * weight, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))

    def forward(self, x):
        out = torch.empty_like(x)
        rows, n = x.shape
        rms_norm_kernel[(rows,)](x, self.weight, out, n, 1e-2, BLOCK=triton.next_power_of_2(n))
        return out
