# /// trick
# id = "E6-import"
# name = "never ends while it is imported"
# problem = "softmax"
# expect = ["timeout"]
# where = ["cpu", "gpu"]
# ///
"""Loops for ever at the top of the module: no forward is ever reached.
A limit on calls alone would not see it."""

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


while True:
    softmax_kernel.note = 1


class ModelNew(nn.Module):
    def forward(self, x):
        return softmax(x)
