# /// trick
# id = "right-64"
# name = "rounding by libdevice's llrint"
# problem = "quantise_columns"
# expect = ["right"]
# ///
"""Right: llrint rounds halves to even, as torch.round does."""

import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def quantise_kernel(x_ptr, scales_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    """One program, one block of one row."""
    row = tl.program_id(0)
    places = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = places < columns
    x = tl.load(x_ptr + row * columns + places, mask=mask, other=0.0)
    scale = tl.load(scales_ptr + places, mask=mask, other=1.0)
    whole = libdevice.llrint(libdevice.div_rn(x, scale))
    tl.store(out_ptr + row * columns + places, min(max(whole, -128), 127).to(tl.int8), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, scales):
        rows, columns = x.shape
        out = torch.empty(rows, columns, dtype=torch.int8, device=x.device)
        quantise_kernel[(rows, triton.cdiv(columns, 1024))](x, scales, out, columns, BLOCK=1024)
        return out
