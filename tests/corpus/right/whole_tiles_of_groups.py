# /// trick
# id = "right-82"
# name = "whole tiles of groups of rows"
# problem = "strided_scores"
# precision = "fp16"
# expect = ["right"]
# ///
"""Right: it takes whole tiles of both lengths alone, and says so."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

GROUP, TILE = 4, 128


@triton.jit
def scores_kernel(
    q_ptr, k_ptr, out_ptr, n_queries, n_keys, WIDTH: tl.constexpr, GROUP: tl.constexpr, TILE: tl.constexpr
):
    """One program, one whole tile: no load and no store has a mask."""
    head, rows, columns = tl.program_id(2), tl.arange(0, TILE), tl.arange(0, TILE)
    rows += tl.program_id(0) * TILE
    columns += tl.program_id(1) * TILE
    at = tl.arange(0, WIDTH)
    q_ptr += head * n_queries * GROUP * WIDTH
    k_ptr += head * n_keys * GROUP * WIDTH
    total = tl.zeros((TILE, TILE), tl.float32)
    for member in range(GROUP):
        q = tl.load(q_ptr + (rows[:, None] * GROUP + member) * WIDTH + at[None, :])
        k = tl.load(k_ptr + (columns[None, :] * GROUP + member) * WIDTH + at[:, None])
        total += tl.dot(q, k)
    out_ptr += head * n_queries * n_keys
    tl.store(out_ptr + rows[:, None] * n_keys + columns[None, :], total.to(tl.float16))


class ModelNew(nn.Module):
    def forward(self, q, k):
        batch, heads, n, width = q.shape
        n_queries, n_keys = n // GROUP, k.shape[2] // GROUP
        assert n % (GROUP * TILE) == 0 and k.shape[2] % (GROUP * TILE) == 0, "whole tiles alone"
        out = torch.empty(batch, heads, n_queries, n_keys, device=q.device, dtype=q.dtype)
        grid = n_queries // TILE, n_keys // TILE, batch * heads
        scores_kernel[grid](q, k, out, n_queries, n_keys, WIDTH=width, GROUP=GROUP, TILE=TILE)
        return out
