# /// trick
# id = "bug-62"
# name = "weights shared by all instances"
# problem = "rms_norm"
# expect = ["incorrect"]
# ///
"""Weights are kept by form and version in a default argument, which every instance shares."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rms_norm_kernel(x_ptr, weight_ptr, out_ptr, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    mask = columns < n
    x = tl.load(x_ptr + row * n + columns, mask=mask, other=0.0)
    scale = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) / n + eps)
    weight = tl.load(weight_ptr + columns, mask=mask, other=0.0)
    tl.store(out_ptr + row * n + columns, x * scale * weight, mask=mask)


def held(weight, cache={}):  # noqa: B006 - the bug
    key = (weight.shape[0], weight._version)
    if key not in cache:
        cache[key] = weight.detach().clone()
    return cache[key]


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))

    def forward(self, x):
        out = torch.empty_like(x)
        rows, n = x.shape
        rms_norm_kernel[(rows,)](x, held(self.weight), out, n, 1e-2, BLOCK=triton.next_power_of_2(n))
        return out
