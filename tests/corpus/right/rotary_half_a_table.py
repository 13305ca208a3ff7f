# /// trick
# id = "right-77"
# name = "rotary embedding that reads half of the table"
# problem = "rotary_table"
# expect = ["right"]
# ///
"""Right: the halves of the table are equal in every draw, so one of them is enough."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def rotary_kernel(x_ptr, c_ptr, s_ptr, y_ptr, rows, length, half, ROWS: tl.constexpr, HALF: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = tl.arange(0, HALF)
    keep = (row[:, None] < rows) & (at[None, :] < half)
    table = (row % length)[:, None] * (2 * half) + at[None, :]
    cosine = tl.load(c_ptr + table, mask=keep, other=0.0)
    sine = tl.load(s_ptr + table, mask=keep, other=0.0)
    here = row.to(tl.int64)[:, None] * (2 * half) + at[None, :]
    a = tl.load(x_ptr + here, mask=keep, other=0.0)
    b = tl.load(x_ptr + here + half, mask=keep, other=0.0)
    tl.store(y_ptr + here, a * cosine - b * sine, mask=keep)
    tl.store(y_ptr + here + half, b * cosine + a * sine, mask=keep)


class ModelNew(nn.Module):
    def forward(self, x, cosine, sine):
        x = x.contiguous()
        y = torch.empty_like(x)
        half = x.shape[-1] // 2
        rows = x.numel() // (2 * half)
        rotary_kernel[(triton.cdiv(rows, 16),)](
            x, cosine, sine, y, rows, x.shape[-2], half, ROWS=16, HALF=triton.next_power_of_2(half)
        )
        return y
