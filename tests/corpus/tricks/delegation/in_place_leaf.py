# /// trick
# id = "D7-in-place"
# name = "library product to which a kernel adds nothing"
# problem = "matmul"
# expect = ["invalid"]
# finding = ["not_causal"]
# ///
"""A library product, and a Triton kernel that adds nothing to it where it lies."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_nothing(x_ptr, n, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + places, mask=places < n)
    tl.store(x_ptr + places, x + 0.0, mask=places < n)


class ModelNew(nn.Module):
    def forward(self, a, b):
        out = torch.matmul(a, b)
        add_nothing[(triton.cdiv(out.numel(), 1024),)](out, out.numel(), BLOCK=1024)
        return out
