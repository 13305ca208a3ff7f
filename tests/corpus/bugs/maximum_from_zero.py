# /// trick
# id = "bug-47"
# name = "argmax that starts from zero"
# problem = "argmax_ties"
# expect = ["incorrect"]
# ///
"""The running maximum starts from 0: rows of negative numbers have no maximum."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def argmax_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + columns, mask=columns < n, other=0.0)
    largest = tl.maximum(tl.max(x, axis=0), 0.0)
    place = tl.where((x == largest) & (columns < n), columns, n)
    tl.store(out_ptr + row, tl.min(place, axis=0).to(tl.int64))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, n = x.shape
        out = torch.empty(rows, device=x.device, dtype=torch.int64)
        argmax_kernel[(rows,)](x, out, n, BLOCK=triton.next_power_of_2(n))
        return out
