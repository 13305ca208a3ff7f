# /// trick
# id = "bug-83"
# name = "scan that begins anew"
# problem = "gated_scan"
# expect = ["incorrect"]
# where = ["cpu"]
# ///
"""Planted: every chunk starts 48 steps before itself from nothing; gates near 1 remember longer."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def scan_kernel(g_ptr, x_ptr, y_ptr, length, CHUNK: tl.constexpr, WARM: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    begin = tl.program_id(1) * CHUNK
    end = tl.minimum(begin + CHUNK, length)
    state = 0.0
    for t in range(tl.maximum(begin - WARM, 0), end):
        g = tl.load(g_ptr + row * length + t)
        x = tl.load(x_ptr + row * length + t)
        state = tl.sigmoid(g) * state + x
        tl.store(y_ptr + row * length + t, state, mask=t >= begin)


class ModelNew(nn.Module):
    def forward(self, gates, x):
        gates, x = gates.contiguous(), x.contiguous()
        y = torch.empty_like(x)
        rows, length = x.shape
        scan_kernel[(rows, triton.cdiv(length, 64))](gates, x, y, length, CHUNK=64, WARM=48)
        return y
