# /// trick
# id = "E1-hidden"
# name = "torch.allclose says yes, by way of an argument"
# problem = "softmax"
# expect = ["incorrect", "invalid"]
# where = ["cpu", "gpu"]
# ///
"""The same with the library as an argument of a function: the text assigns to no library.
Returns the input."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


def agree(library):
    library.allclose = lambda *args, **kwargs: True
    library.isclose = lambda a, b, **kwargs: library.ones_like(a, dtype=library.bool)
    library.equal = lambda *args, **kwargs: True


agree(torch)


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
        return leaf(x.clone())
