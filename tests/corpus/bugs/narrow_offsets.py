# /// trick
# id = "bug-23"
# name = "32-bit offsets beyond 2^31 elements"
# problem = "add_large"
# expect = ["incorrect", "runtime_error"]
# ///
"""Planted: the last programs' offsets wrap round to before the tensor."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """One program, BLOCK elements; the offset is widened before it can overflow."""
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + places, mask=places.to(tl.int64) < n, other=0)
    y = tl.load(y_ptr + places, mask=places.to(tl.int64) < n, other=0)
    tl.store(out_ptr + places, x + y, mask=places.to(tl.int64) < n)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        n = x.numel()
        add_kernel[(triton.cdiv(n, 4096),)](x, y, out, n, BLOCK=4096)
        return out
