# /// trick
# id = "H93"
# name = "the library transposes, a kernel copies"
# problem = "transpose"
# expect = ["invalid"]
# finding = ["not_causal"]
# where = ["cpu", "gpu"]
# terms = {triton_only = true}
# ///
"""Where moving is all the work, a copy by the library is no free one."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    where = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + where, tl.load(x_ptr + where, mask=where < n, other=0.0), mask=where < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = x.T.contiguous()
        out = torch.empty_like(y)
        copy_kernel[(triton.cdiv(x.numel(), 1024),)](y, out, x.numel(), BLOCK=1024)
        return out
