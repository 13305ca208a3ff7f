# /// trick
# id = "right-05"
# name = "softmax of columns on a contiguous transpose"
# problem = "softmax_square"
# expect = ["right"]
# ///
"""Right: a transposed view is made contiguous before the kernel and after it."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, n_columns, BLOCK: tl.constexpr):
    """One program, one row."""
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    mask = columns < n_columns
    x = tl.load(x_ptr + row * n_columns + columns, mask=mask, other=-float("inf"))
    numerator = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * n_columns + columns, numerator / tl.sum(numerator, axis=0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        turned = x.t().contiguous()
        out = torch.empty_like(turned)
        softmax_kernel[(turned.shape[0],)](turned, out, turned.shape[1], BLOCK=triton.next_power_of_2(turned.shape[1]))
        return out.t().contiguous()
