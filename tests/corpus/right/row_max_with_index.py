# /// trick
# id = "right-17"
# name = "largest element and its index"
# problem = "row_max"
# expect = ["right"]
# ///
"""Right: two outputs, one of them int64."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def max_kernel(x_ptr, value_ptr, index_ptr, n, BLOCK: tl.constexpr):
    """One program, one row; two outputs, one of them an integer."""
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + columns, mask=columns < n, other=-float("inf"))
    value, index = tl.max(x, axis=0, return_indices=True)
    tl.store(value_ptr + row, value)
    tl.store(index_ptr + row, index.to(tl.int64))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, n = x.shape
        values = torch.empty(rows, device=x.device, dtype=x.dtype)
        indices = torch.empty(rows, device=x.device, dtype=torch.int64)
        max_kernel[(rows,)](x, values, indices, n, BLOCK=triton.next_power_of_2(n))
        return values, indices
