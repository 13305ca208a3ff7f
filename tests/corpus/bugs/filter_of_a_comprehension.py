# /// trick
# id = "bug-105"
# name = "a condition of a comprehension"
# problem = "activation_tail"
# expect = ["incorrect", "compile_error"]
# ///
"""Planted: the compiler takes no notice of a comprehension's `if`, so the third part is added, too."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def tail_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Leaky ReLU, clamp, scale, as a sum of the parts that are not None."""
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + places, mask=places < n, other=0.0)
    y = tl.minimum(tl.where(x > 0, x, 0.02 * x), 1.5)
    parts = (y, y, x)
    chosen = [part for part in parts if part is not x]
    total = tl.zeros([BLOCK], tl.float32)
    for number in tl.static_range(len(chosen)):
        total += chosen[number]
    tl.store(out_ptr + places, total, mask=places < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        n = x.numel()
        tail_kernel[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
        return out
