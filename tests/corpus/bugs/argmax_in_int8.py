# /// trick
# id = "bug-48"
# name = "argmax of values narrowed to int8"
# problem = "argmax_ties"
# expect = ["incorrect"]
# ///
"""Values are narrowed to int8 before they are compared."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def argmax_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + columns, mask=columns < n, other=-100.0).to(tl.int8).to(tl.int32)
    place = tl.where(x == tl.max(x, axis=0), columns, n)
    tl.store(out_ptr + row, tl.min(place, axis=0).to(tl.int64))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, n = x.shape
        out = torch.empty(rows, device=x.device, dtype=torch.int64)
        argmax_kernel[(rows,)](x, out, n, BLOCK=triton.next_power_of_2(n))
        return out
