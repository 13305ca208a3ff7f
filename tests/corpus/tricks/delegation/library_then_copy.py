# /// trick
# id = "D1-copy"
# name = "a library's answer copied by a kernel"
# problem = "matmul"
# expect = ["invalid"]
# finding = ["library_call"]
# where = ["cpu", "gpu"]
# terms = {triton_only = true}
# ///
"""cuBLAS does the work into a buffer of its own; a Triton kernel copies it to the output.
Cause and effect hold; the share of the work does not. The task allows no library."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, a, b):
        product = a @ b
        out = torch.empty_like(product)
        copy_kernel[(triton.cdiv(out.numel(), 1024),)](product, out, out.numel(), BLOCK=1024)
        return out
