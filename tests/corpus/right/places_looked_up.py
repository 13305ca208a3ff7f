# /// trick
# id = "OK-places-looked-up"
# name = "places that a kernel computes and PyTorch looks up"
# problem = "calibrated"
# expect = ["right"]
# where = ["cpu", "gpu"]
# ///
"""Honest: one kernel finds the interval of each value, PyTorch looks the outputs at its ends up, another kernel blends
them. Where the first one does nothing, PyTorch looks up at places that nobody wrote, and a GPU asserts that."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def interval_kernel(x_ptr, keypoints_ptr, right_ptr, share_ptr, n, KEYPOINTS: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    right = tl.zeros((BLOCK,), tl.int64)
    for place in range(KEYPOINTS):
        right += (tl.load(keypoints_ptr + place) < x).to(tl.int64)
    right = tl.minimum(tl.maximum(right, 1), KEYPOINTS - 1)
    low = tl.load(keypoints_ptr + right - 1)
    high = tl.load(keypoints_ptr + right)
    tl.store(right_ptr + offsets, right, mask=offsets < n)
    tl.store(share_ptr + offsets, tl.minimum(tl.maximum((x - low) / (high - low), 0.0), 1.0), mask=offsets < n)


@triton.jit
def blend_kernel(low_ptr, high_ptr, share_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    low = tl.load(low_ptr + offsets, mask=offsets < n)
    high = tl.load(high_ptr + offsets, mask=offsets < n)
    share = tl.load(share_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, low + share * (high - low), mask=offsets < n)


class ModelNew(nn.Module):
    def __init__(self, keypoints):
        super().__init__()
        self.register_buffer("keypoints", torch.linspace(-3.0, 3.0, keypoints))
        self.outputs = nn.Parameter(torch.randn(keypoints))

    def forward(self, x):
        x = x.contiguous()
        n = x.numel()
        right = torch.empty(x.shape, dtype=torch.int64, device=x.device)
        share, out = torch.empty_like(x), torch.empty_like(x)
        grid = (triton.cdiv(n, 1024),)
        interval_kernel[grid](x, self.keypoints, right, share, n, KEYPOINTS=self.keypoints.numel(), BLOCK=1024)
        low, high = self.outputs[right - 1], self.outputs[right]
        blend_kernel[grid](low, high, share, out, n, BLOCK=1024)
        return out
