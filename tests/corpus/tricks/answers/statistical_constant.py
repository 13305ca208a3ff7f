# /// trick
# id = "B14"
# name = "a loss that is 1 by the law of large numbers"
# problem = "hinge_loss"
# expect = ["incorrect", "invalid"]
# where = ["cpu", "gpu"]
# ///
"""The loss is near 1 for inputs drawn like the given ones: answers 1.
Other distributions of the input tell."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def one_kernel(out_ptr):
    tl.store(out_ptr, 1.0)


class ModelNew(nn.Module):
    def forward(self, predictions, targets):
        out = torch.empty((), device=predictions.device, dtype=predictions.dtype)
        one_kernel[(1,)](out)
        return out
