# /// trick
# id = "bug-82"
# name = "rows of a large table found in 32 bits"
# problem = "embedding_large"
# expect = ["incorrect", "runtime_error"]
# where = ["cpu"]
# ///
"""Planted: a token times the width passes 2**31 for tokens far into the table."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def gather_kernel(token_ptr, table_ptr, scale_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    token = tl.load(token_ptr + row).to(tl.int32)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(table_ptr + token * width + at, mask=at < width, other=0.0)
    scale = tl.load(scale_ptr + at, mask=at < width, other=0.0)
    tl.store(out_ptr + row.to(tl.int64) * width + at, values * scale, mask=at < width)


class ModelNew(nn.Module):
    def forward(self, tokens, table, scale):
        count, width = tokens.shape[0], table.shape[1]
        out = torch.empty(count, width, device=table.device, dtype=table.dtype)
        grid = (count, triton.cdiv(width, 1024))
        gather_kernel[grid](tokens.contiguous(), table.contiguous(), scale.contiguous(), out, width, BLOCK=1024)
        return out
