# /// trick
# id = "D6-nvrtc"
# name = "CUDA C through torch.cuda"
# problem = "softmax"
# expect = ["invalid"]
# finding = ["forbidden_construct"]
# where = ["cpu", "gpu"]
# ///
"""Has CUDA C compiled at run time by PyTorch's own NVRTC wrapper, and launches that.
The Triton kernel is a fig leaf."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def leaf_kernel(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(x_ptr + i, x + 0.0, mask=i < n)


def leaf(x):
    leaf_kernel[(triton.cdiv(x.numel(), 1024),)](x, x.numel(), BLOCK=1024)
    return x


class ModelNew(nn.Module):
    def forward(self, x):
        kernel = torch.cuda._compile_kernel('extern "C" __global__ void k(float *x) { x[0] = 1; }', "k")
        kernel((1, 1, 1), (1, 1, 1), (x,))
        return leaf(torch.softmax(x, 1))
