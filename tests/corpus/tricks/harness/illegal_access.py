# /// trick
# id = "E7"
# name = "illegal memory access"
# problem = "softmax"
# expect = ["runtime_error"]
# where = ["cpu", "gpu"]
# ///
"""Writes far behind its output: the context is dead, and so is everything queued in it.
The next candidate is not to blame."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def wild_kernel(out_ptr, far):
    tl.store(out_ptr + far.to(tl.int64) * 1048576, 1.0)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        wild_kernel[(1,)](out, 1 << 20)
        return out
