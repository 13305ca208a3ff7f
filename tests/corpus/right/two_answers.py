# /// trick
# id = "OK-tuple"
# name = "a tuple of answers"
# problem = "moments"
# expect = ["right"]
# where = ["cpu", "gpu"]
# ///
"""Honest: one kernel, two answers.
A tuple as the reference returns it."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def moments_kernel(x_ptr, mean_ptr, second_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    j = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + j, mask=j < n, other=0.0)
    mean = tl.sum(x, axis=0) / n
    tl.store(mean_ptr + row, mean)
    centred = tl.where(j < n, x - mean, 0.0)
    tl.store(second_ptr + row, tl.sum(centred * centred, axis=0) / (n - 1))


class ModelNew(nn.Module):
    def forward(self, x):
        mean, second = (torch.empty(x.shape[0], device=x.device, dtype=x.dtype) for _ in range(2))
        moments_kernel[(x.shape[0],)](x, mean, second, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return mean, second
