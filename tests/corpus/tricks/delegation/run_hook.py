# /// trick
# id = "D2-run-hook"
# name = "library work in a kernel's own hook"
# problem = "softmax"
# expect = ["invalid"]
# where = ["cpu", "gpu"]
# ///
"""The hook runs before each launch of the kernel: the library computes the answer there, the kernel copies."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    out = tl.load(out_ptr + i, mask=i < n)
    tl.store(out_ptr + i, out, mask=i < n)


def answer_first(x, out, n, **constants):
    out.copy_(torch.softmax(x, 1))


copy_kernel.add_pre_run_hook(answer_first)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        copy_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
