# /// trick
# id = "C4-affine"
# name = "the affine part of a norm left out"
# problem = "layer_norm"
# expect = ["incorrect", "invalid"]
# where = ["cpu", "gpu"]
# ///
"""Leaves out weight and bias of the norm: freshly initialised they are one and zero.
Parameters away from their initial values tell."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def norm_kernel(x_ptr, out_ptr, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    j = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + j, mask=j < n, other=0.0)
    centred = tl.where(j < n, x - tl.sum(x, axis=0) / n, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=0) / n + eps)
    tl.store(out_ptr + row * n + j, centred * scale, mask=j < n)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features, eps=1e-3)

    def forward(self, x):
        out = torch.empty_like(x)
        norm_kernel[(x.shape[0],)](x, out, x.shape[1], 1e-3, BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
