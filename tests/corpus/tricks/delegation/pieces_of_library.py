# /// trick
# id = "D2-pieces"
# name = "a product from small pieces"
# problem = "matmul"
# expect = ["invalid", "incorrect", "runtime_error", "timeout", "compile_error", "out_of_memory"]
# where = ["cpu", "gpu"]
# terms = {triton_only = true}
# ///
"""Multiplies and sums with elementwise operators: no product is called, and no kernel of one's own works.
The fig leaf copies."""

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
        rows = [(row[:, None] * b).sum(0) for row in a]
        return leaf(torch.stack(rows))
