# /// trick
# id = "right-40"
# name = "gated scan, block by block"
# problem = "gated_scan"
# expect = ["right"]
# where = ["cpu"]
# ///
"""Right: pairs of gate and value compose; the state goes from block to block."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def compose(g1, x1, g2, x2):
    return g1 * g2, g2 * x1 + x2


@triton.jit
def scan_kernel(g_ptr, x_ptr, y_ptr, length, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK)
    state = 0.0
    for start in range(0, length, BLOCK):
        at = start + lanes
        keep = at < length
        g = tl.sigmoid(tl.load(g_ptr + row * length + at, mask=keep, other=0.0))
        x = tl.load(x_ptr + row * length + at, mask=keep, other=0.0)
        gate, value = tl.associative_scan((g, x), 0, compose)
        h = gate * state + value
        tl.store(y_ptr + row * length + at, h, mask=keep)
        state = tl.sum(tl.where(lanes == BLOCK - 1, h, 0.0), axis=0)


class ModelNew(nn.Module):
    def forward(self, gates, x):
        gates, x = gates.contiguous(), x.contiguous()
        y = torch.empty_like(x)
        scan_kernel[(x.shape[0],)](gates, x, y, x.shape[1], BLOCK=256)
        return y
