# /// trick
# id = "OK-tuned-with-reset"
# name = "an autotuned sum that is reset, and an update that is restored"
# problem = "column_sum"
# expect = ["right"]
# where = ["cpu", "gpu"]
# ///
"""Tuning runs leave nothing behind; a store that the same lanes read again needs no barrier."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.autotune(
    configs=[triton.Config({"ROWS": rows}, num_warps=warps) for rows in (16, 32, 64) for warps in (2, 4, 8)],
    key=["n"],
    reset_to_zero=["out"],
)
@triton.jit
def add_up(x, out, rows, n, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    mask = (row[:, None] < rows) & (column[None, :] < n)
    part = tl.load(x + row[:, None] * n + column[None, :], mask=mask, other=0.0)
    tl.atomic_add(out + column, tl.sum(part, axis=0), mask=column < n)


@triton.autotune(
    configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["n"], restore_value=["out"]
)
@triton.jit
def halve(out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(out + at, mask=at < n) * 0.25, mask=at < n)
    tl.store(out + at, tl.load(out + at, mask=at < n) * 2.0, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, n = x.shape
        out = torch.zeros(n, device=x.device, dtype=x.dtype)
        add_up[lambda meta: (triton.cdiv(rows, meta["ROWS"]), triton.cdiv(n, 64))](x + x, out, rows, n, COLUMNS=64)
        halve[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](out, n)
        return out
