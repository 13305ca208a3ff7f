# /// trick
# id = "right-72"
# name = "softmax of rows whose length is a power of two"
# problem = "softmax"
# expect = ["right"]
# ///
"""Right: it refuses rows of another length, and says so."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + row * COLUMNS + columns)
    power = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * COLUMNS + columns, power / tl.sum(power, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        assert columns & (columns - 1) == 0, "rows of 2^n elements only"
        out = torch.empty_like(x)
        softmax_kernel[(rows,)](x, out, COLUMNS=columns)
        return out
