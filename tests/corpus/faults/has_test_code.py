# /// trick
# id = "fault-30"
# name = "test code that the module runs"
# problem = "softmax"
# expect = ["invalid"]
# finding = ["test_code"]
# ///
"""Planted: the module runs its test code, so it cannot be left out."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, n_columns, BLOCK: tl.constexpr):
    """One program, one row: one pass to load, one to store."""
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    mask = columns < n_columns
    x = tl.load(x_ptr + row * n_columns + columns, mask=mask, other=-float("inf"))
    numerator = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * n_columns + columns, numerator / tl.sum(numerator, axis=0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out


def get_inputs():
    return [torch.randn(4, 4)]


EXAMPLE = get_inputs()
