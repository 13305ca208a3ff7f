# /// trick
# id = "right-92"
# name = "attention over whole blocks of pixels"
# problem = "image_attention"
# expect = ["right"]
# ///
"""Right: it takes several images, a multiple of 256 pixels and 64 channels, and says so."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def attention_kernel(q_ptr, k_ptr, v_ptr, out_ptr, pixels, scale, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """One program, a block of rows of one head of one image."""
    width = tl.arange(0, 64)
    start = tl.program_id(1) * pixels * 64
    places = start + (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None] * 64 + width[None, :]
    q = tl.load(q_ptr + places) * scale
    most = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    acc = tl.zeros((ROWS, 64), tl.float32)
    for first in range(0, pixels, COLUMNS):
        there = start + (first + tl.arange(0, COLUMNS))[:, None] * 64 + width[None, :]
        scores = tl.dot(q, tl.trans(tl.load(k_ptr + there)), input_precision="ieee")
        above = tl.maximum(most, tl.max(scores, 1))
        weights = tl.exp(scores - above[:, None])
        shrink = tl.exp(most - above)
        total = total * shrink + tl.sum(weights, 1)
        acc = acc * shrink[:, None] + tl.dot(weights, tl.load(v_ptr + there), input_precision="ieee")
        most = above
    tl.store(out_ptr + places, acc / total[:, None])


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        images, heads, pixels, width = q.shape
        if images < 2 or pixels % 256 or width != 64:
            raise ValueError("several images, a multiple of 256 pixels, 64 channels")
        out = torch.empty_like(q)
        attention_kernel[(pixels // 64, images * heads)](q, k, v, out, pixels, width**-0.5, ROWS=64, COLUMNS=64)
        return out
