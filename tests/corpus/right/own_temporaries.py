# /// trick
# id = "OK-in-place"
# name = "in-place work on temporaries of one's own"
# problem = "softmax"
# expect = ["right"]
# where = ["cpu", "gpu"]
# ///
"""Honest: allocates, computes in place on what it allocated, and returns it.
The input is only read."""

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
        held = torch.empty_like(x)
        held.copy_(x)
        softmax_kernel[(x.shape[0],)](held, held, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return held
