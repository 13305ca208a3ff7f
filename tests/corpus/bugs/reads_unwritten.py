# /// trick
# id = "bug-85"
# name = "right by luck: adds up in memory that nobody zeroed"
# problem = "softmax"
# expect = ["runtime_error", "incorrect", "invalid"]
# finding = ["out_of_bounds", "uninitialised_read", "unwritten_output", "wrong_values", "non_finite"]
# finalist = true
# ///
"""Right by luck: adds up in memory that nobody zeroed."""

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
    tl.atomic_add(out_ptr + row * n_columns + columns, numerator / tl.sum(numerator, axis=0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
