# /// trick
# id = "fault-33"
# name = "library product where only Triton is allowed"
# problem = "linear_gelu"
# expect = ["invalid"]
# finding = ["library_call"]
# terms = { triton_only = true }
# ///
"""Planted: the product is a library call and only GELU is Triton, which a task may forbid."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gelu_kernel(x_ptr, out_ptr, n_elements, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476)), mask=mask)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):
        product = self.linear(x)
        out = torch.empty_like(product)
        gelu_kernel[(triton.cdiv(out.numel(), 1024),)](product, out, out.numel(), BLOCK=1024)
        return out
