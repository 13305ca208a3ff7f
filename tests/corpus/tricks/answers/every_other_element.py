# /// trick
# id = "X5"
# name = "right at strided samples"
# problem = "softmax"
# expect = ["incorrect", "invalid"]
# where = ["cpu", "gpu"]
# ///
"""Exact at every seventh column, a constant in between: right where a strided sample looks.
The row sums are right, too."""

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
        exact = softmax(x)
        picked = torch.zeros_like(exact)
        picked[:, ::7] = exact[:, ::7]
        rest = (1 - picked.sum(1, keepdim=True)) / max(1, x.shape[1] - picked[:, ::7].shape[1])
        return torch.where(picked > 0, picked, rest.expand_as(picked))
