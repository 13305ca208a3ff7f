# /// trick
# id = "bug-53"
# name = "running statistics forget what they were"
# problem = "batch_norm"
# expect = ["incorrect"]
# ///
"""Running statistics are those of a first call, at every call."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def statistics_kernel(x_ptr, mean_ptr, variance_ptr, n_rows, n, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """One program, COLUMNS features: mean, then the mean squared deviation."""
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((COLUMNS,), dtype=tl.float32)
    for start in range(0, n_rows, ROWS):
        rows = start + tl.arange(0, ROWS)
        mask = (rows[:, None] < n_rows) & (columns[None, :] < n)
        total += tl.sum(tl.load(x_ptr + rows[:, None] * n + columns[None, :], mask=mask, other=0.0), axis=0)
    mean = total / n_rows
    squares = tl.zeros((COLUMNS,), dtype=tl.float32)
    for start in range(0, n_rows, ROWS):
        rows = start + tl.arange(0, ROWS)
        mask = (rows[:, None] < n_rows) & (columns[None, :] < n)
        x = tl.load(x_ptr + rows[:, None] * n + columns[None, :], mask=mask, other=0.0)
        away = tl.where(mask, x - mean[None, :], 0.0)
        squares += tl.sum(away * away, axis=0)
    tl.store(mean_ptr + columns, mean, mask=columns < n)
    tl.store(variance_ptr + columns, squares / n_rows, mask=columns < n)


@triton.jit
def normalise_kernel(
    x_ptr, mean_ptr, variance_ptr, weight_ptr, bias_ptr, out_ptr, n_rows, n, eps,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """One program, one tile."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    mask = (rows[:, None] < n_rows) & (columns[None, :] < n)
    x = tl.load(x_ptr + rows[:, None] * n + columns[None, :], mask=mask, other=0.0)
    mean = tl.load(mean_ptr + columns, mask=columns < n, other=0.0)
    variance = tl.load(variance_ptr + columns, mask=columns < n, other=1.0)
    weight = tl.load(weight_ptr + columns, mask=columns < n, other=0.0) * tl.rsqrt(variance + eps)
    bias = tl.load(bias_ptr + columns, mask=columns < n, other=0.0)
    out = (x - mean[None, :]) * weight[None, :] + bias[None, :]
    tl.store(out_ptr + rows[:, None] * n + columns[None, :], out, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.BatchNorm1d(features)

    def forward(self, x):
        rows, n = x.shape
        norm = self.norm
        mean, variance = torch.empty_like(norm.running_mean), torch.empty_like(norm.running_var)
        statistics_kernel[(triton.cdiv(n, 32),)](x, mean, variance, rows, n, ROWS=32, COLUMNS=32)
        norm.num_batches_tracked.fill_(1)
        norm.running_mean.copy_(mean * norm.momentum)
        norm.running_var.copy_(variance * (rows / (rows - 1)) * norm.momentum + (1 - norm.momentum))
        out = torch.empty_like(x)
        grid = (triton.cdiv(rows, 32), triton.cdiv(n, 32))
        normalise_kernel[grid](x, mean, variance, norm.weight, norm.bias, out, rows, n, norm.eps, ROWS=32, COLUMNS=32)
        return out
