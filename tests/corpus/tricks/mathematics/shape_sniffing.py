# /// trick
# id = "C3-sniff"
# name = "right at odd shapes, sloppy at the given one"
# problem = "softmax"
# expect = ["incorrect", "invalid"]
# ///
"""Honest at every shape but the one that is timed, where it takes half of the columns for the sum.
Tests at other shapes find nothing."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, n_columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < n_columns
    summed = columns < tl.where(n_columns == 4096, 2048, n_columns)
    x = tl.load(x_ptr + row * n_columns + columns, mask=inside, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * n_columns + columns, e / tl.sum(tl.where(summed, e, 0.0), axis=0), mask=inside)


def softmax(x):
    out = torch.empty_like(x)
    softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


class ModelNew(nn.Module):
    def forward(self, x):
        return softmax(x)
