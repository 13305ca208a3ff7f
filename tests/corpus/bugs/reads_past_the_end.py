# /// trick
# id = "bug-84"
# name = "right by luck: reads past the end of the tensor"
# problem = "softmax"
# expect = ["runtime_error", "incorrect", "invalid"]
# finding = ["out_of_bounds", "uninitialised_read", "unwritten_output", "wrong_values", "non_finite"]
# finalist = true
# ///
"""Right by luck: every row reads one element past its end, and the last row past the end of the tensor."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, n_columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n_columns + columns, mask=columns <= n_columns, other=-float("inf"))
    x = tl.where(columns < n_columns, x, -float("inf"))
    numerator = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * n_columns + columns, numerator / tl.sum(numerator, axis=0), mask=columns < n_columns)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=2 * triton.next_power_of_2(x.shape[1]))
        return out
