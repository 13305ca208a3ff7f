# /// trick
# id = "D2-grid"
# name = "library work in a grid function"
# problem = "softmax"
# expect = ["invalid"]
# where = ["cpu", "gpu"]
# terms = {triton_only = true}
# ///
"""The grid is a function that is called before each launch: the library computes the answer there.
The kernel copies."""

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
        out = torch.empty_like(x)

        def grid(meta):
            torch.softmax(x, 1, out=out)
            return (triton.cdiv(x.numel(), meta["BLOCK"]),)

        leaf_kernel[grid](out, x.numel(), BLOCK=1024)
        return out
