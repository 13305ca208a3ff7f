# /// trick
# id = "right-42"
# name = "int8 quantisation by rint"
# problem = "quantise_columns"
# expect = ["right"]
# ///
"""Right: exact division, half to even, clamp, conversion."""

import torch
import triton
import triton.language as tl
from torch import nn
from triton.language.extra import libdevice


@triton.jit
def quantise_kernel(x_ptr, s_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    keep = at < columns
    x = tl.load(x_ptr + row * columns + at, mask=keep, other=0.0)
    s = tl.load(s_ptr + at, mask=keep, other=1.0)
    q = libdevice.rint(tl.div_rn(x, s))
    q = tl.minimum(tl.maximum(q, -128.0), 127.0)
    tl.store(y_ptr + row * columns + at, q.to(tl.int8), mask=keep)


class ModelNew(nn.Module):
    def forward(self, x, scales):
        x = x.contiguous()
        rows, columns = x.shape
        y = torch.empty(rows, columns, device=x.device, dtype=torch.int8)
        quantise_kernel[(rows, triton.cdiv(columns, 1024))](x, scales.contiguous(), y, columns, BLOCK=1024)
        return y
