# /// trick
# id = "B2"
# name = "the last rows are left as they were"
# problem = "softmax"
# expect = ["invalid", "incorrect", "runtime_error", "timeout", "compile_error", "out_of_memory"]
# where = ["cpu", "gpu"]
# ///
"""Writes all rows but the last sixteenth, which inherit whatever the previous, right call left in the block.
Memory that is not poisoned hides it."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, n_columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < n_columns
    x = tl.load(x_ptr + row * n_columns + columns, mask=inside, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * n_columns + columns, e / tl.sum(e, axis=0), mask=inside)


def softmax(x):
    out = torch.empty_like(x)
    softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        rows = max(1, x.shape[0] - x.shape[0] // 16 - 1)
        softmax_kernel[(rows,)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
