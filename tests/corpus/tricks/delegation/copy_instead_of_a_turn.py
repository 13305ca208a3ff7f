# /// trick
# id = "D7-turn"
# name = "a plain copy where the reference turns"
# problem = "turned_product"
# expect = ["invalid"]
# finding = ["not_causal"]
# ///
"""The library computes all and reads the transpose in place; the kernel copies what the library computed."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + places, tl.load(x_ptr + places, mask=places < n), mask=places < n)


class ModelNew(nn.Module):
    def forward(self, a, b, c):
        product = a @ b
        out = torch.empty_like(product)
        copy_kernel[(triton.cdiv(out.numel(), 1024),)](product, out, out.numel(), BLOCK=1024)
        return out.t() @ c
