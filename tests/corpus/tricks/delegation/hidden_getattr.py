# /// trick
# id = "D2-getattr"
# name = "a name put together"
# problem = "matmul"
# expect = ["invalid"]
# finding = ["forbidden_construct"]
# where = ["cpu", "gpu"]
# ///
"""The function's name is put together at run time.
No search for words finds it."""

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
        return leaf(getattr(torch, "mat" + "mul")(a, b))
