# /// trick
# id = "D2-einsum"
# name = "a library product in other clothes"
# problem = "matmul"
# expect = ["invalid"]
# where = ["cpu", "gpu"]
# terms = {triton_only = true}
# ///
"""A one-by-one convolution is a matrix product, too.
No operator that sounds like one is called."""

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
        weight = b.T.contiguous().unsqueeze(-1)
        return leaf(torch.nn.functional.conv1d(a.unsqueeze(-1), weight).squeeze(-1).contiguous())
