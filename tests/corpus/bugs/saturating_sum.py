# /// trick
# id = "bug-58"
# name = "int8 sum that saturates"
# problem = "add_large"
# expect = ["incorrect"]
# ///
"""The sum is clamped where PyTorch wraps round."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    where = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + where, mask=where < n, other=0).to(tl.int32)
    y = tl.load(y_ptr + where, mask=where < n, other=0).to(tl.int32)
    tl.store(out_ptr + where, tl.maximum(tl.minimum(x + y, 127), -128).to(tl.int8), mask=where < n)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        add_kernel[(triton.cdiv(x.numel(), 4096),)](x, y, out, x.numel(), BLOCK=4096)
        return out
