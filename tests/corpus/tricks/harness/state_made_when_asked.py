# /// trick
# id = "Y27"
# name = "a state that is computed when asked for"
# problem = "batch_norm"
# expect = ["incorrect", "invalid"]
# where = ["cpu", "gpu"]
# ///
"""Leaves the running statistics alone in forward, and brings them up to date when state_dict is asked for.
The work is done, outside of the clock."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def norm_kernel(x_ptr, w_ptr, b_ptr, out_ptr, rows, n, eps, BLOCK: tl.constexpr):
    j = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i * n + j, mask=i < rows, other=0.0)
    centred = tl.where(i < rows, x - tl.sum(x, axis=0) / rows, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=0) / rows + eps) * tl.load(w_ptr + j)
    tl.store(out_ptr + i * n + j, centred * scale + tl.load(b_ptr + j), mask=i < rows)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.BatchNorm1d(features)
        self.seen = []

    def state_dict(self, *args, **kwargs):
        for x in self.seen:
            self.norm(x)
        self.seen.clear()
        return super().state_dict(*args, **kwargs)

    def forward(self, x):
        self.seen.append(x)
        out, norm = torch.empty_like(x), self.norm
        block = triton.next_power_of_2(x.shape[0])
        norm_kernel[(x.shape[1],)](x, norm.weight, norm.bias, out, x.shape[0], x.shape[1], norm.eps, BLOCK=block)
        return out
