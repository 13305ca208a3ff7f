# /// trick
# id = "OK-function"
# name = "an autograd function"
# problem = "gelu"
# expect = ["right"]
# where = ["cpu", "gpu"]
# ///
"""Honest: wraps its kernel in an autograd function, as libraries do, and warns where it could not be used.
Inference takes forward only."""

import warnings

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gelu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, 0.5 * x * (1 + tl.erf(x * 0.7071067811865476)), mask=i < n)


class Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        out = torch.empty_like(x)
        gelu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out

    @staticmethod
    def backward(ctx, gradient):
        raise NotImplementedError


class ModelNew(nn.Module):
    def forward(self, x):
        if not x.is_contiguous():
            warnings.warn("a copy is made", stacklevel=2)
            x = x.contiguous()
        return Gelu.apply(x)
