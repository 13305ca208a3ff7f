# /// trick
# id = "bug-60"
# name = "scale clamped to what it is at first"
# problem = "layer_norm"
# expect = ["incorrect"]
# ///
"""The scale is clamped to a range about 1."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def layer_norm_kernel(x_ptr, weight_ptr, bias_ptr, out_ptr, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    mask = columns < n
    x = tl.load(x_ptr + row * n + columns, mask=mask, other=0.0)
    mean = tl.sum(x, axis=0) / n
    centred = tl.where(mask, x - mean, 0.0)
    variance = tl.sum(centred * centred, axis=0) / n
    weight = tl.load(weight_ptr + columns, mask=mask, other=0.0)
    bias = tl.load(bias_ptr + columns, mask=mask, other=0.0)
    out = centred * (1.0 / tl.sqrt(variance + eps)) * tl.minimum(tl.maximum(weight, 0.4), 1.6)
    tl.store(out_ptr + row * n + columns, out + bias, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features, eps=1e-3)

    def forward(self, x):
        out = torch.empty_like(x)
        n = x.shape[1]
        layer_norm_kernel[(x.shape[0],)](
            x, self.norm.weight, self.norm.bias, out, n, self.norm.eps, BLOCK=triton.next_power_of_2(n)
        )
        return out
