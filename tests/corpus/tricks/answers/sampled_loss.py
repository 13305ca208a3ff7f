# /// trick
# id = "B14-sample"
# name = "a loss estimated from a sample"
# problem = "hinge_loss"
# expect = ["incorrect", "invalid"]
# where = ["cpu", "gpu"]
# ///
"""Averages one row in 64: within 1e-2 of the whole by the law of large numbers.
A 64th of the traffic."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sample_kernel(p_ptr, t_ptr, out_ptr, rows, columns, STEP: tl.constexpr, BLOCK: tl.constexpr):
    j = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for row in range(0, rows, STEP):
        p = tl.load(p_ptr + row * columns + j, mask=j < columns, other=0.0)
        t = tl.load(t_ptr + row)
        total += tl.where(j < columns, tl.maximum(1 - p * t, 0.0), 0.0)
    count = (rows + STEP - 1) // STEP
    tl.store(out_ptr, tl.sum(total) / (count * columns))


class ModelNew(nn.Module):
    def forward(self, predictions, targets):
        out = torch.empty((), device=predictions.device, dtype=predictions.dtype)
        rows, columns = predictions.shape
        block = triton.next_power_of_2(columns)
        sample_kernel[(1,)](predictions, targets, out, rows, columns, STEP=64, BLOCK=block)
        return out
