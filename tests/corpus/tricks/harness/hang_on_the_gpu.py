# /// trick
# id = "E6-hang"
# name = "a kernel that never ends"
# problem = "softmax"
# expect = ["timeout"]
# where = ["cpu", "gpu"]
# ///
"""The kernel spins until a value changes that nothing changes.
The host waits for it."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def spin_kernel(x_ptr, out_ptr):
    value = tl.load(out_ptr)
    while value < 1e30:
        value = tl.load(out_ptr, volatile=True)
    tl.store(out_ptr, value)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.zeros_like(x)
        spin_kernel[(1,)](x, out)
        return out
