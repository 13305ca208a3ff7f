# /// trick
# id = "D2-out"
# name = "a library product into the kernel's output"
# problem = "matmul"
# expect = ["invalid"]
# where = ["cpu", "gpu"]
# terms = {triton_only = true}
# ///
"""The library writes into the buffer that the kernel wrote before: the kernel's answer is thrown away.
Every count of launches looks right."""

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
        out = torch.zeros((a.shape[0], b.shape[1]), device=a.device)
        leaf(out)
        return torch.mm(a, b, out=out)
