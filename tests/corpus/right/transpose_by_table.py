# /// trick
# id = "right-39"
# name = "transpose through a table of addresses"
# problem = "transpose"
# expect = ["right"]
# ///
"""Right: the kernel finds its tensors by addresses that it loads, as a grouped product does."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def transpose_by_table(table_ptr, M, N, sm, sn, om, on, TILE: tl.constexpr):
    src = tl.load(table_ptr).to(tl.pointer_type(tl.float32))
    dst = tl.load(table_ptr + 1).to(tl.pointer_type(tl.float32))
    m = tl.program_id(0) * TILE + tl.arange(0, TILE)
    n = tl.program_id(1) * TILE + tl.arange(0, TILE)
    x = tl.load(src + m[:, None] * sm + n[None, :] * sn, mask=(m < M)[:, None] & (n < N)[None, :])
    tl.store(dst + n[:, None] * om + m[None, :] * on, tl.trans(x), mask=(n < N)[:, None] & (m < M)[None, :])


class ModelNew(nn.Module):
    def forward(self, x):
        M, N = x.shape
        y = torch.empty((N, M), device=x.device, dtype=x.dtype)
        table = torch.tensor([x.data_ptr(), y.data_ptr()], dtype=torch.int64, device=x.device)
        transpose_by_table[(triton.cdiv(M, 32), triton.cdiv(N, 32))](table, M, N, *x.stride(), *y.stride(), 32)
        return y
