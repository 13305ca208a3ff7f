# /// trick
# id = "right-45"
# name = "compiled kernel kept and launched by itself"
# problem = "softmax"
# expect = ["right"]
# where = ["gpu"]
# ///
"""Right: the compiled kernel is kept, and launched without going through its JIT function."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, n_columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    mask = columns < n_columns
    x = tl.load(x_ptr + row * n_columns + columns, mask=mask, other=-float("inf"))
    numerator = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * n_columns + columns, numerator / tl.sum(numerator, axis=0), mask=mask)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = {}

    def forward(self, x):
        out, block = torch.empty_like(x), triton.next_power_of_2(x.shape[1])
        if tuple(x.shape) not in self.kept:
            self.kept[tuple(x.shape)] = softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=block)
        self.kept[tuple(x.shape)][(x.shape[0], 1, 1)](x, out, x.shape[1], block)
        return out
