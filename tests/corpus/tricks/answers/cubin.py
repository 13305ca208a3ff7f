# /// trick
# id = "D6-cubin"
# name = "a binary loaded by Triton's own driver"
# problem = "softmax"
# expect = ["invalid"]
# finding = ["forbidden_construct"]
# where = ["cpu", "gpu"]
# ///
"""Loads a ready-made binary with the utilities of Triton's driver, in place of a kernel of its own.
The JIT function beside it is a fig leaf."""

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
    def forward(self, x):
        loaded = triton.runtime.driver.active.utils.load_binary("mm", b"\x7fELF", 0, 0)
        return leaf(torch.softmax(x, 1))
