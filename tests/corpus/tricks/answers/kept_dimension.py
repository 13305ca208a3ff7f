# /// trick
# id = "X22"
# name = "a dimension kept"
# problem = "row_mean"
# expect = ["incorrect"]
# finding = ["wrong_shape"]
# where = ["cpu", "gpu"]
# ///
"""Returns means of shape (rows, 1) where (rows,) is asked for: a comparison that broadcasts is content.
With equal rows it would even compare equal."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mean_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    j = tl.arange(0, BLOCK)
    tl.store(out_ptr + row, tl.sum(tl.load(x_ptr + row * n + j, mask=j < n, other=0.0), axis=0) / n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty((x.shape[0], 1), device=x.device, dtype=x.dtype)
        mean_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
