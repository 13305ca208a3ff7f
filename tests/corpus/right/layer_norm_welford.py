# /// trick
# id = "right-10"
# name = "layer norm, Welford's update"
# problem = "layer_norm"
# expect = ["right"]
# ///
"""Right: blocks of a row are merged as Welford and Chan do."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def layer_norm_kernel(x_ptr, weight_ptr, bias_ptr, out_ptr, n, eps, BLOCK: tl.constexpr):
    """One program, one row in blocks: count, mean and squared deviations are merged block by block."""
    row = tl.program_id(0)
    count = 0.0
    mean = 0.0
    squares = 0.0
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        mask = columns < n
        x = tl.load(x_ptr + row * n + columns, mask=mask, other=0.0)
        here = tl.sum(mask.to(tl.float32), axis=0)
        mean_here = tl.sum(x, axis=0) / here
        away = tl.where(mask, x - mean_here, 0.0)
        delta = mean_here - mean
        both = count + here
        squares += tl.sum(away * away, axis=0) + delta * delta * count * here / both
        mean += delta * here / both
        count = both
    scale = tl.rsqrt(squares / n + eps)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        mask = columns < n
        x = tl.load(x_ptr + row * n + columns, mask=mask, other=0.0)
        weight = tl.load(weight_ptr + columns, mask=mask, other=0.0)
        bias = tl.load(bias_ptr + columns, mask=mask, other=0.0)
        tl.store(out_ptr + row * n + columns, (x - mean) * scale * weight + bias, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features, eps=1e-3)

    def forward(self, x):
        out = torch.empty_like(x)
        n = x.shape[1]
        layer_norm_kernel[(x.shape[0],)](x, self.norm.weight, self.norm.bias, out, n, self.norm.eps, BLOCK=256)
        return out
