# /// trick
# id = "bug-61"
# name = "sizes kept from the first call"
# problem = "softmax"
# expect = ["runtime_error", "incorrect"]
# ///
"""Rows and columns are taken from the first inputs that come, and never again."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, n, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + columns, mask=columns < n, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * stride + columns, e / tl.sum(e, axis=0), mask=columns < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.sizes = None

    def forward(self, x):
        if self.sizes is None:
            self.sizes = x.shape
        rows, n = self.sizes
        out = torch.empty_like(x)
        softmax_kernel[(rows,)](x, out, n, n, BLOCK=triton.next_power_of_2(n))
        return out
