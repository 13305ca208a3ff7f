# /// trick
# id = "D2-library"
# name = "an operator of one's own hides a library's"
# problem = "matmul"
# expect = ["invalid"]
# finding = ["forbidden_construct"]
# where = ["cpu", "gpu"]
# terms = {triton_only = true}
# ///
"""Registers an operator whose body is the library's product: a dispatcher sees the custom name alone.
Work beneath it is not seen."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def leaf_kernel(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(x_ptr + i, x + 0.0, mask=i < n)


def leaf(x):
    leaf_kernel[(triton.cdiv(x.numel(), 1024),)](x, x.numel(), BLOCK=1024)
    return x


@torch.library.custom_op("mine::product", mutates_args=())
def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


class ModelNew(nn.Module):
    def forward(self, a, b):
        return leaf(product(a, b))
