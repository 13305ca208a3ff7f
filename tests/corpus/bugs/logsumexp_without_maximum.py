# /// trick
# id = "bug-50"
# name = "logsumexp without its maximum"
# problem = "rows_with_infinity"
# expect = ["incorrect"]
# ///
"""The maximum is not subtracted: large rows overflow, infinities in the input or not."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def logsumexp_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + columns, mask=columns < n, other=-float("inf"))
    tl.store(out_ptr + row, tl.log(tl.sum(tl.exp(x), axis=0)))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0], device=x.device, dtype=x.dtype)
        logsumexp_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
