# /// trick
# id = "X9"
# name = "relies on what memory held before"
# problem = "softmax"
# expect = ["invalid", "incorrect", "runtime_error", "timeout", "compile_error", "out_of_memory"]
# where = ["cpu", "gpu"]
# ///
"""Keeps its accumulators in fresh memory that it does not clear, because fresh memory often holds zeros.
Right by luck, until a block is reused."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sum_kernel(x_ptr, sum_ptr, n_columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n_columns + j, mask=j < n_columns, other=-float("inf"))
    tl.atomic_add(sum_ptr + row, tl.sum(tl.exp(x), axis=0))


@triton.jit
def divide_kernel(x_ptr, sum_ptr, out_ptr, n_columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n_columns + j, mask=j < n_columns)
    tl.store(out_ptr + row * n_columns + j, tl.exp(x) / tl.load(sum_ptr + row), mask=j < n_columns)


class ModelNew(nn.Module):
    def forward(self, x):
        sums = torch.empty(x.shape[0], device=x.device)
        out = torch.empty_like(x)
        grid = (x.shape[0], triton.cdiv(x.shape[1], 1024))
        sum_kernel[grid](x, sums, x.shape[1], BLOCK=1024)
        divide_kernel[grid](x, sums, out, x.shape[1], BLOCK=1024)
        return out
