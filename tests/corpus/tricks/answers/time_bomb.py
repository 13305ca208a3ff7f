# /// trick
# id = "X16"
# name = "wrong after fifty calls"
# problem = "softmax"
# expect = ["incorrect", "invalid"]
# where = ["gpu"]
# ///
"""Counts its calls and computes half of the rows from the fiftieth on.
Checks are over by then; the timed calls are fast."""

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
    calls = 0

    def forward(self, x):
        self.calls += 1
        out = torch.zeros_like(x)
        rows = x.shape[0] if self.calls < 50 else x.shape[0] // 2
        softmax_kernel[(rows,)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
