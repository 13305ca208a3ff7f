# /// trick
# id = "D6-python"
# name = "a softmax in Python, copied"
# problem = "softmax"
# expect = ["invalid"]
# finding = ["not_causal"]
# where = ["cpu"]
# terms = {triton_only = true}
# ///
"""Plain Python computes from a list of the values: no operator is seen, and the kernel copies.
Asking for values keeps the full shape from being faked."""

import math

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
        rows = []
        for row in x.tolist():
            top = max(row)
            e = [math.exp(v - top) for v in row]
            s = sum(e)
            rows.append([v / s for v in e])
        return passed_on(torch.tensor(rows, device=x.device))
