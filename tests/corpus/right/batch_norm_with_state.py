# /// trick
# id = "OK-batch-norm"
# name = "running statistics kept in Triton"
# problem = "batch_norm"
# expect = ["right"]
# where = ["cpu", "gpu"]
# ///
"""Honest: normalises with the batch's statistics and updates the running ones in place, as PyTorch does.
A state that the reference changes must be changed."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def norm_kernel(x_ptr, w_ptr, b_ptr, mean_ptr, var_ptr, out_ptr, rows, n, eps, momentum, BLOCK: tl.constexpr):
    j = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i * n + j, mask=i < rows, other=0.0)
    mean = tl.sum(x, axis=0) / rows
    centred = tl.where(i < rows, x - mean, 0.0)
    squares = tl.sum(centred * centred, axis=0)
    scale = tl.load(w_ptr + j) / tl.sqrt(squares / rows + eps)
    tl.store(out_ptr + i * n + j, centred * scale + tl.load(b_ptr + j), mask=i < rows)
    tl.store(mean_ptr + j, (1 - momentum) * tl.load(mean_ptr + j) + momentum * mean)
    tl.store(var_ptr + j, (1 - momentum) * tl.load(var_ptr + j) + momentum * squares / (rows - 1))


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.BatchNorm1d(features)

    def forward(self, x):
        out, norm = torch.empty_like(x), self.norm
        norm_kernel[(x.shape[1],)](
            x, norm.weight, norm.bias, norm.running_mean, norm.running_var, out, x.shape[0], x.shape[1],
            norm.eps, norm.momentum, BLOCK=triton.next_power_of_2(x.shape[0]),
        )  # fmt: skip
        norm.num_batches_tracked.add_(1)
        return out
