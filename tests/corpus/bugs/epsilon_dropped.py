# /// trick
# id = "bug-05"
# name = "epsilon dropped"
# problem = "layer_norm"
# expect = ["incorrect"]
# ///
"""Planted: layer norm without its epsilon."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def layer_norm_kernel(x_ptr, weight_ptr, bias_ptr, out_ptr, n, eps, BLOCK: tl.constexpr):
    """One program, one row held in registers."""
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    mask = columns < n
    x = tl.load(x_ptr + row * n + columns, mask=mask, other=0.0)
    mean = tl.sum(x, axis=0) / n
    centred = tl.where(mask, x - mean, 0.0)
    variance = tl.sum(centred * centred, axis=0) / n
    scale = 1.0 / tl.sqrt(variance)
    weight = tl.load(weight_ptr + columns, mask=mask, other=0.0)
    bias = tl.load(bias_ptr + columns, mask=mask, other=0.0)
    tl.store(out_ptr + row * n + columns, centred * scale * weight + bias, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features, eps=1e-3)

    def forward(self, x):
        out = torch.empty_like(x)
        n = x.shape[1]
        norm = self.norm
        block = triton.next_power_of_2(n)
        layer_norm_kernel[(x.shape[0],)](x, norm.weight, norm.bias, out, n, norm.eps, BLOCK=block)
        return out
