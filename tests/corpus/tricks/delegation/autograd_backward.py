# /// trick
# id = "D2-backward"
# name = "the product in a backward pass"
# problem = "matmul"
# expect = ["invalid"]
# where = ["cpu", "gpu"]
# terms = {triton_only = true}
# ///
"""The gradient of a product is a product: a backward pass on another thread does the work.
Modes of this thread may not see it."""

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
        with torch.enable_grad():
            query = torch.zeros((a.shape[0], b.shape[1]), device=a.device, requires_grad=True)
            (found,) = torch.autograd.grad(query @ b.T, query, grad_outputs=a)
        return leaf(found.contiguous())
