# /// trick
# id = "H90"
# name = "Python sums the rows"
# problem = "row_mean"
# expect = ["invalid"]
# finding = ["not_causal"]
# where = ["cpu", "gpu"]
# terms = {triton_only = true}
# ///
"""The rows go to the host as lists and are summed there; a kernel scales what comes back.
No operator of PyTorch computes anything."""

import math

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, out_ptr, n, scale, BLOCK: tl.constexpr):
    where = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + where, mask=where < n, other=0.0)
    tl.store(out_ptr + where, x * scale, mask=where < n)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, n = x.shape
        out = torch.empty(rows, device=x.device, dtype=x.dtype)
        sums = torch.tensor([math.fsum(row) for row in x.tolist()], device=x.device, dtype=x.dtype)
        scale_kernel[(triton.cdiv(rows, 128),)](sums, out, rows, 1.0 / n, BLOCK=128)
        return out
