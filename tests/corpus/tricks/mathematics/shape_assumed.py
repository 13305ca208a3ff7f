# /// trick
# id = "C3"
# name = "right for the given shape only"
# problem = "softmax"
# expect = ["incorrect", "invalid", "runtime_error"]
# where = ["cpu", "gpu"]
# ///
"""Knows that rows have 4096 elements: no mask, and the stride is a constant.
Any other shape is wrong or out of bounds."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def fixed_kernel(x_ptr, out_ptr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, 4096)
    x = tl.load(x_ptr + row * 4096 + columns)
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * 4096 + columns, e / tl.sum(e, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        fixed_kernel[(x.shape[0],)](x, out)
        return out
