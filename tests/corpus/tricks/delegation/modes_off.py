# /// trick
# id = "D2-modes"
# name = "the counters switched off"
# problem = "matmul"
# expect = ["invalid", "incorrect", "runtime_error", "timeout", "compile_error", "out_of_memory"]
# where = ["cpu", "gpu"]
# terms = {triton_only = true}
# ///
"""Runs the library's product with all dispatch modes disabled, so that nobody who counts operators sees it.
The switch is in a private part."""

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


def silently(library):
    return library.utils._python_dispatch._disable_current_modes


class ModelNew(nn.Module):
    def forward(self, a, b):
        with silently(torch)():
            product = a @ b
        return leaf(product)
