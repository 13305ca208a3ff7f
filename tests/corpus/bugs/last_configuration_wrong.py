# /// trick
# id = "bug-73"
# name = "the last of many configurations is wrong"
# problem = "row_mean"
# expect = ["incorrect"]
# where = ["cpu"]
# ///
"""Planted: of sixteen tuning configurations, the last sums 64 columns alone."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK": 64 << (i % 3), "LAST": 1 << 20 if i < 15 else 64}, num_warps=1 << (i % 4))
        for i in range(16)
    ],
    key=["n"],
)
@triton.jit
def mean_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr, LAST: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, tl.minimum(n, LAST), BLOCK):
        columns = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + row * n + columns, mask=columns < n, other=0.0)
    tl.store(out_ptr + row, tl.sum(total, axis=0) / n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0], device=x.device, dtype=x.dtype)
        mean_kernel[(x.shape[0],)](x, out, x.shape[1])
        return out
