# /// trick
# id = "D2-library-launching"
# name = "an operator of one's own launches a kernel, and calls a library's"
# problem = "matmul"
# expect = ["invalid"]
# finding = ["library_call", "not_causal"]
# where = ["cpu", "gpu"]
# terms = {triton_only = true}
# ///
"""The operator wraps a kernel as it should, so the gate lets it through. The product is beneath it."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def leaf_kernel(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(x_ptr + i, x + 0.0, mask=i < n)


@torch.library.custom_op("mine::product", mutates_args=())
def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    out = a @ b
    leaf_kernel[(triton.cdiv(out.numel(), 1024),)](out, out.numel(), BLOCK=1024)
    return out


class ModelNew(nn.Module):
    def forward(self, a, b):
        return product(a, b)
