# /// trick
# id = "C7-atomics"
# name = "atomics into memory that is not cleared"
# problem = "column_sum"
# expect = ["invalid", "incorrect", "runtime_error", "timeout", "compile_error", "out_of_memory"]
# where = ["cpu", "gpu"]
# ///
"""Adds up with atomics in memory that nobody cleared.
Right where fresh memory is zero."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sum_kernel(x_ptr, out_ptr, n, rows, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    j = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    i = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    x = tl.load(x_ptr + i[:, None] * n + j[None, :], mask=(i[:, None] < rows) & (j[None, :] < n), other=0.0)
    tl.atomic_add(out_ptr + j, tl.sum(x, axis=0), mask=j < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[1], device=x.device, dtype=x.dtype)
        sum_kernel[(triton.cdiv(x.shape[1], 64), triton.cdiv(x.shape[0], 32))](
            x, out, x.shape[1], x.shape[0], ROWS=32, BLOCK=64
        )
        return out
