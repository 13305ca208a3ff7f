# /// trick
# id = "bug-decay-1"
# name = "the rest to a decay in half precision"
# problem = "decayed_average"
# expect = ["incorrect"]
# ///
"""Planted: 1 - decay is taken in fp16, which has few bits so close to 1."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def average_kernel(average_ptr, x_ptr, out_ptr, decay, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    average = tl.load(average_ptr + i, mask=i < n, other=0.0)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    rest = 1 - (decay + 0.0 * average).to(tl.float16)
    tl.store(out_ptr + i, decay * average + rest.to(tl.float32) * x * x, mask=i < n)


class ModelNew(nn.Module):
    def __init__(self, decay):
        super().__init__()
        self.decay = decay

    def forward(self, average, x):
        out = torch.empty_like(average)
        n = out.numel()
        average_kernel[(triton.cdiv(n, 1024),)](average, x, out, self.decay, n, BLOCK=1024)
        return out
