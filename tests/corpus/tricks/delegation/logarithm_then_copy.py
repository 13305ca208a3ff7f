# /// trick
# id = "D6-log"
# name = "a softmax by log_softmax and exp, copied"
# problem = "softmax"
# expect = ["invalid"]
# finding = ["not_causal"]
# where = ["cpu"]
# ///
"""Two operators that the reference does not call make its answer; the kernel only copies it."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def copy_kernel(src, dst, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(dst + at, tl.load(src + at, mask=at < n), mask=at < n)


def passed_on(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    n = x.numel()
    copy_kernel[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
    return out


class ModelNew(nn.Module):
    def forward(self, x):
        return passed_on(torch.log_softmax(x, 1).exp())
