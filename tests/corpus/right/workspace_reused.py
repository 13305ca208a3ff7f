# /// trick
# id = "OK-workspace"
# name = "a workspace that is kept"
# problem = "softmax"
# expect = ["right"]
# where = ["cpu", "gpu"]
# ///
"""Honest: two kernels with a workspace for the row statistics, kept between calls and written before it is read.
The output is fresh."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def statistics_kernel(x_ptr, work_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    j = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + j, mask=j < n, other=-float("inf"))
    top = tl.max(x, axis=0)
    tl.store(work_ptr + 2 * row, top)
    tl.store(work_ptr + 2 * row + 1, tl.sum(tl.exp(x - top), axis=0))


@triton.jit
def divide_kernel(x_ptr, work_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + j, mask=j < n)
    value = tl.exp(x - tl.load(work_ptr + 2 * row)) / tl.load(work_ptr + 2 * row + 1)
    tl.store(out_ptr + row * n + j, value, mask=j < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.work = None

    def forward(self, x):
        rows, columns = x.shape
        if self.work is None or self.work.numel() < 2 * rows or self.work.device != x.device:
            self.work = torch.empty(2 * rows, device=x.device)
        out = torch.empty_like(x)
        statistics_kernel[(rows,)](x, self.work, columns, BLOCK=triton.next_power_of_2(columns))
        divide_kernel[(rows, triton.cdiv(columns, 1024))](x, self.work, out, columns, BLOCK=1024)
        return out
