# /// trick
# id = "right-63"
# name = "a grid of four entries"
# problem = "add"
# expect = ["right"]
# ///
"""Right: Triton launches by the first three entries of a grid."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """x + y."""
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + places, mask=places < n, other=0.0)
    y = tl.load(y_ptr + places, mask=places < n, other=0.0)
    tl.store(out_ptr + places, x + y, mask=places < n)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        n = x.numel()
        add_kernel[(triton.cdiv(n, 1024), 1, 1, 1)](x, y, out, n, BLOCK=1024)
        return out
