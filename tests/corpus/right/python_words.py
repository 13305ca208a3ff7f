# /// trick
# id = "right-61"
# name = "Python's words on blocks"
# problem = "activation_tail"
# expect = ["right"]
# ///
"""Right: and, or, not, min, max on blocks are elementwise in a compiled kernel."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def tail_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Leaky ReLU, clamp, scale; whatever is neither positive nor zero is scaled by the slope."""
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = places >= 0 and places < n
    x = tl.load(x_ptr + places, mask=inside, other=0.0)
    positive = x > 0
    y = max(x, 0.0) + tl.where(not (positive or x == 0), 0.02 * x, 0.0)
    tl.store(out_ptr + places, min(y, 1.5) * 2.0, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        n = x.numel()
        tail_kernel[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
        return out
