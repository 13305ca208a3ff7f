# /// trick
# id = "right-62"
# name = "constants, choices and tuples"
# problem = "activation_tail"
# expect = ["right"]
# ///
"""Right: what the compiler decides on constants, and numbers that become tensors."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

SLOPE = tl.constexpr(0.02)


@triton.jit
def limited(x, limit, dtype):
    """The minimum of x and a limit, in a type that the caller names."""
    assert dtype == tl.float32, "computed in float32"
    return min(x, limit).to(dtype)


@triton.jit
def tail_kernel(x_ptr, bias_ptr, out_ptr, n, LIMIT: tl.constexpr, BLOCK: tl.constexpr):
    """Leaky ReLU, clamp, scale."""
    first, step = tl.program_id(0) * BLOCK, 1, tl.program_id(1)  # the compiler takes the first two
    places = first + step * tl.arange(0, BLOCK)
    x = tl.load(x_ptr + places, mask=places < n, other=0.0)
    if bias_ptr is not None and LIMIT.value > 0:
        x += tl.load(bias_ptr + places, mask=places < n, other=0.0)
    slope: tl.constexpr = SLOPE
    leak = slope * x if BLOCK > 1 else x
    parts = [tl.where(x > 0, x, leak)]
    parts += [parts[0]]
    scale = 2.0 if tl.program_id(0) >= 0 else 0.0
    y = [limited(part, LIMIT, tl.float32) for part in parts]
    total = (y[0] + y[1]) / 2
    for number in range(2, 0, -1):
        total = total * (number // number)
    done = 0
    while not (done > 0):
        total *= scale
        done += 1
    tl.store(out_ptr + places, total, mask=places < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        n = x.numel()
        tail_kernel[(triton.cdiv(n, 1024),)](x, None, out, n, LIMIT=1.5, BLOCK=1024)
        return out
