# /// trick
# id = "right-79"
# name = "gated scan of rows in whole blocks"
# problem = "gated_channels"
# expect = ["right"]
# ///
"""Right: it takes a multiple of 256 channels, and says so."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scan_kernel(gates_ptr, x_ptr, out_ptr, steps, channels, BLOCK: tl.constexpr):
    """One program, one block of channels of one sequence."""
    places = tl.program_id(0) * steps * channels + tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    state = tl.zeros((BLOCK,), tl.float32)
    for _ in range(steps):
        state = tl.sigmoid(tl.load(gates_ptr + places)) * state + tl.load(x_ptr + places)
        tl.store(out_ptr + places, state)
        places += channels


class ModelNew(nn.Module):
    def forward(self, gates, x):
        batch, steps, channels = x.shape
        assert channels % 256 == 0, "whole blocks of 256 channels"
        out = torch.empty_like(x)
        scan_kernel[(batch, channels // 256)](gates, x, out, steps, channels, BLOCK=256)
        return out
