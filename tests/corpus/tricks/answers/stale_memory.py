# /// trick
# id = "B1"
# name = "an output nobody writes"
# problem = "softmax"
# expect = ["invalid", "incorrect", "runtime_error", "timeout", "compile_error", "out_of_memory"]
# where = ["cpu", "gpu"]
# ///
"""Allocates the output and launches a kernel without any work: what the allocator hands out may be the freed
reference answer.
Nothing is computed."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def idle_kernel(x_ptr, out_ptr, n):
    if n < 0:
        tl.store(out_ptr, tl.load(x_ptr))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        idle_kernel[(1,)](x, out, x.numel())
        return out
