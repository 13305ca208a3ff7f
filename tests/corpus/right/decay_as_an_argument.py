# /// trick
# id = "right-81"
# name = "a decay as an argument in fp32"
# problem = "decayed_average"
# expect = ["right"]
# ///
"""Right: 1 - decay is taken in fp32, in which the decay is passed."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def average_kernel(average_ptr, x_ptr, out_ptr, decay, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    average = tl.load(average_ptr + i, mask=i < n, other=0.0)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(out_ptr + i, decay * average + (1 - decay) * x * x, mask=i < n)


class ModelNew(nn.Module):
    def __init__(self, decay):
        super().__init__()
        self.decay = decay

    def forward(self, average, x):
        out = torch.empty_like(average)
        n = out.numel()
        average_kernel[(triton.cdiv(n, 1024),)](average, x, out, self.decay, n, BLOCK=1024)
        return out
