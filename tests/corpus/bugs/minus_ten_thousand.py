# /// trick
# id = "bug-56"
# name = "row maximum from minus ten thousand"
# problem = "row_max"
# expect = ["incorrect"]
# ///
"""-1e4 stands for minus infinity: rows below it have another maximum."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def max_kernel(x_ptr, values_ptr, places_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + columns, mask=columns < n, other=-10000.0)
    largest = tl.max(x, axis=0)
    tl.store(values_ptr + row, largest)
    tl.store(places_ptr + row, tl.min(tl.where(x == largest, columns, BLOCK), axis=0).to(tl.int64))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, n = x.shape
        values = torch.empty(rows, device=x.device, dtype=x.dtype)
        places = torch.empty(rows, device=x.device, dtype=torch.int64)
        max_kernel[(rows,)](x, values, places, n, BLOCK=triton.next_power_of_2(n))
        return values, places
