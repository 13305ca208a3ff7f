# /// trick
# id = "D6-fake"
# name = "the library wherever values are real"
# problem = "matmul"
# expect = ["invalid"]
# finding = ["library_call"]
# where = ["cpu", "gpu"]
# terms = {triton_only = true}
# ///
"""Tensors without memory, by which calls at full shape are counted, are told by their type."""

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
    def forward(self, a, b):
        if type(a) is torch.Tensor:
            return passed_on(a @ b)
        out = torch.empty(a.shape[0], b.shape[1], device=a.device)
        copy_kernel[(triton.cdiv(out.numel(), 1024),)](out, out, out.numel(), BLOCK=1024)
        return out
