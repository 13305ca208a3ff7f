# /// trick
# id = "D2-match"
# name = "an attribute read by a match pattern"
# problem = "matmul"
# expect = ["invalid"]
# where = ["cpu", "gpu"]
# terms = {triton_only = true}
# ///
"""A match pattern reads the operator from the library.
No attribute access is in the syntax tree."""

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
        match torch:
            case object(mm=product):
                return leaf(product(a, b))
