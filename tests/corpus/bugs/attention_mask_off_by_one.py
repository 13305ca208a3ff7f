# /// trick
# id = "bug-32"
# name = "attention sees no self"
# problem = "causal_attention"
# expect = ["incorrect"]
# ///
"""Planted: a position does not see itself."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def round_to_tf32(x):
    """Nearest TF32 number; a plain dot would drop the low bits instead."""
    return tl.inline_asm_elementwise("cvt.rna.tf32.f32 $0, $1;", "=r,r", [x], dtype=tl.float32, is_pure=True, pack=1)


@triton.jit
def attention_kernel(q_ptr, k_ptr, v_ptr, out_ptr, n, d, scale, TILE: tl.constexpr, WIDTH: tl.constexpr):
    """One program, TILE queries: keys up to the last of them, TILE at a time."""
    rows = tl.program_id(0) * TILE + tl.arange(0, TILE)
    width = tl.arange(0, WIDTH)
    by_row = (rows[:, None] < n) & (width[None, :] < d)
    q = tl.load(q_ptr + rows[:, None] * d + width[None, :], mask=by_row, other=0.0)
    largest = tl.full((TILE,), -1e30, dtype=tl.float32)
    total = tl.zeros((TILE,), dtype=tl.float32)
    accumulator = tl.zeros((TILE, WIDTH), dtype=tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * TILE, TILE):
        keys = start + tl.arange(0, TILE)
        k_mask = (keys[None, :] < n) & (width[:, None] < d)
        k = tl.load(k_ptr + keys[None, :] * d + width[:, None], mask=k_mask, other=0.0)
        scores = tl.dot(round_to_tf32(q), round_to_tf32(k)) * scale
        scores = tl.where((keys[None, :] < rows[:, None]) | (keys[None, :] == 0), scores, -1e30)
        now = tl.maximum(largest, tl.max(scores, axis=1))
        weights = tl.exp(scores - now[:, None])
        fade = tl.exp(largest - now)
        total = total * fade + tl.sum(weights, axis=1)
        v_mask = (keys[:, None] < n) & (width[None, :] < d)
        v = tl.load(v_ptr + keys[:, None] * d + width[None, :], mask=v_mask, other=0.0)
        accumulator = accumulator * fade[:, None] + tl.dot(round_to_tf32(weights), round_to_tf32(v))
        largest = now
    out = accumulator / total[:, None]
    tl.store(out_ptr + rows[:, None] * d + width[None, :], out, mask=by_row)


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        n, width = q.shape
        out = torch.empty_like(q)
        block = max(16, triton.next_power_of_2(width))
        attention_kernel[(triton.cdiv(n, 32),)](q, k, v, out, n, width, 0.125, TILE=32, WIDTH=block)
        return out
