# /// trick
# id = "D2-compile-hidden"
# name = "torch.compile through an argument"
# problem = "softmax"
# expect = ["invalid", "incorrect", "runtime_error", "timeout", "compile_error", "out_of_memory"]
# where = ["cpu", "gpu"]
# ///
"""The same by a function that takes the library as an argument.
The text names no forbidden path."""

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


def better(library, function):
    return library.compile(function)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.compiled = better(torch, lambda x: torch.softmax(x, 1))

    def forward(self, x):
        return leaf(self.compiled(x))
