# /// trick
# id = "right-99"
# name = "softmax, configurations that a static assertion refuses"
# problem = "softmax_large"
# expect = ["right"]
# ///
"""Right: of the tuner's blocks those that do not hold a row are refused by a static assertion, and passed over."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BLOCK": block}, num_warps=8) for block in (16, 4096, 64, 8192, 128)],
    key=["n_columns"],
)
@triton.jit
def softmax_kernel(x_ptr, out_ptr, n_columns: tl.constexpr, BLOCK: tl.constexpr):
    """One row, which fits into one block."""
    tl.static_assert(BLOCK >= n_columns)
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n_columns + columns, mask=columns < n_columns, other=-float("inf"))
    exponential = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * n_columns + columns, exponential / tl.sum(exponential, axis=0), mask=columns < n_columns)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        softmax_kernel[(x.shape[0],)](x, out, x.shape[1])
        return out
