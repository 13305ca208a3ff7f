# /// trick
# id = "X8"
# name = "a table of answers in a buffer"
# problem = "softmax"
# expect = ["incorrect", "invalid"]
# where = ["cpu", "gpu"]
# ///
"""Fills a buffer that is no part of the state with answers while it is constructed, and gathers from it.
The table holds exp of a grid: a coarse softmax."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def table_kernel(x_ptr, table_ptr, out_ptr, n_columns, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < n_columns
    x = tl.load(x_ptr + row * n_columns + columns, mask=inside, other=-float("inf"))
    place = tl.minimum(tl.maximum((x - tl.max(x, axis=0)) * 64 + SIZE - 1, 0.0), SIZE - 1.0)
    e = tl.where(inside, tl.load(table_ptr + place.to(tl.int32)), 0.0)
    tl.store(out_ptr + row * n_columns + columns, e / tl.sum(e, axis=0), mask=inside)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.exp((torch.arange(1024) - 1023) / 64), persistent=False)

    def forward(self, x):
        out = torch.empty_like(x)
        block = triton.next_power_of_2(x.shape[1])
        table_kernel[(x.shape[0],)](x, self.table, out, x.shape[1], SIZE=1024, BLOCK=block)
        return out
