# /// trick
# id = "bug-59"
# name = "rows of zeros answered with ones"
# problem = "rms_norm"
# expect = ["incorrect"]
# ///
"""A guard against division by zero answers 1 where the norm is 0."""

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
    weight = tl.load(weight_ptr + columns, mask=mask, other=0.0)
    mean = tl.sum(x * x, axis=0) / n
    scale = 1.0 / tl.sqrt(mean + eps)
    tl.store(out_ptr + row * n + columns, tl.where(mean == 0.0, 1.0, x * scale * weight), mask=mask)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))

    def forward(self, x):
        out = torch.empty_like(x)
        rows, n = x.shape
        rms_norm_kernel[(rows,)](x, self.weight, out, n, 1e-2, BLOCK=triton.next_power_of_2(n))
        return out
