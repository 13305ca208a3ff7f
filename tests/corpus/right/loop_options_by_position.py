# /// trick
# id = "right-100"
# name = "loop options by position, and a dtype of PyTorch as a constant"
# problem = "column_sum"
# expect = ["right"]
# ///
"""Right: `tl.range` takes its options by position, and a constant that the kernel never reads is `x.dtype`."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def k(x, y, rows, columns, DTYPE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, STAGES: tl.constexpr):
    column = tl.program_id(0) * BN + tl.arange(0, BN)
    total = tl.zeros([BN], tl.float32)
    for first in tl.range(0, rows, BM, STAGES, 1):
        row = first + tl.arange(0, BM)
        inside = (row[:, None] < rows) & (column[None, :] < columns)
        total += tl.sum(tl.load(x + row[:, None] * columns + column[None, :], mask=inside, other=0.0), 0)
    tl.store(y + column, total, mask=column < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        y = torch.empty(columns, device=x.device, dtype=x.dtype)
        k[(triton.cdiv(columns, 32),)](x, y, rows, columns, DTYPE=x.dtype, BM=32, BN=32, STAGES=2)
        return y
