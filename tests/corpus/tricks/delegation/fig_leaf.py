# /// trick
# id = "D1"
# name = "a kernel that adds zero"
# problem = "matmul"
# expect = ["invalid"]
# finding = ["library_call"]
# where = ["cpu", "gpu"]
# terms = {triton_only = true}
# ///
"""cuBLAS does the work; a Triton kernel adds zero to the result.
The task allows no library."""

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


class ModelNew(nn.Module):
    def forward(self, a, b):
        return leaf(a @ b)
