# /// trick
# id = "X20"
# name = "writes beyond its output"
# problem = "softmax"
# expect = ["runtime_error", "incorrect"]
# where = ["cpu", "gpu"]
# finalist = true
# ///
"""Writes the row after the last one as well: into the guard of its own output, or somebody else's data.
The answer is right."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, n_columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < n_columns
    x = tl.load(x_ptr + row * n_columns + columns, mask=inside, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * n_columns + columns, e / tl.sum(e, axis=0), mask=inside)


def softmax(x):
    out = torch.empty_like(x)
    softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        spill_kernel[(1,)](out, x.numel(), x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out


@triton.jit
def spill_kernel(out_ptr, n, n_columns, BLOCK: tl.constexpr):
    j = tl.arange(0, BLOCK)
    tl.store(out_ptr + n + j, 0.0, mask=j < n_columns)
