# /// trick
# id = "bug-refuses-1"
# name = "refuses every shape but the declared one"
# problem = "softmax"
# expect = ["runtime_error", "incorrect"]
# ///
"""No shape but the declared one is taken, so no value of it is checked without a GPU."""

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
        assert (rows, columns) == (2048, 4096), "made for one shape"
        out = torch.empty_like(x)
        softmax_kernel[(rows,)](x, out, COLUMNS=columns)
        return out
