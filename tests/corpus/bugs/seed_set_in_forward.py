# /// trick
# id = "bug-66"
# name = "seed set in every forward"
# problem = "softmax"
# expect = ["invalid"]
# ///
"""Reproducible, and so is all that anybody draws afterwards."""

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
    def forward(self, x):
        torch.manual_seed(0)
        out = torch.empty_like(x)
        rows, n = x.shape
        softmax_kernel[(rows,)](x, out, n, n, BLOCK=triton.next_power_of_2(n))
        return out
