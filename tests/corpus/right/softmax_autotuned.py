# /// trick
# id = "right-03"
# name = "softmax, autotuned block"
# problem = "softmax_large"
# expect = ["right"]
# ///
"""Right: triton.autotune chooses between two blocks."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BLOCK": 512}, num_warps=4), triton.Config({"BLOCK": 1024}, num_warps=8)],
    key=["n_columns"],
)
@triton.jit
def softmax_kernel(x_ptr, out_ptr, n_columns, BLOCK: tl.constexpr):
    """Three sweeps over a row: maximum, sum, quotient."""
    row = tl.program_id(0)
    largest = tl.full((BLOCK,), -float("inf"), dtype=tl.float32)
    for start in range(0, n_columns, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n_columns + columns, mask=columns < n_columns, other=-float("inf"))
        largest = tl.maximum(largest, x)
    peak = tl.max(largest, axis=0)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n_columns, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n_columns + columns, mask=columns < n_columns, other=-float("inf"))
        total += tl.exp(x - peak)
    scale = 1.0 / tl.sum(total, axis=0)
    for start in range(0, n_columns, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n_columns + columns, mask=columns < n_columns, other=-float("inf"))
        tl.store(out_ptr + row * n_columns + columns, tl.exp(x - peak) * scale, mask=columns < n_columns)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        softmax_kernel[(x.shape[0],)](x, out, x.shape[1])
        return out
