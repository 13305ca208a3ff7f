# /// trick
# id = "Y61"
# name = "another driver by the compiler's helpers"
# problem = "softmax"
# expect = ["invalid"]
# finding = ["forbidden_construct"]
# ///
"""The module of helpers also changes Triton's driver for the whole process, and holds whole libraries."""

import torch
import torch.nn as nn
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers


@triton.jit
def leaf_kernel(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(x_ptr + i, triton_helpers.maximum(x, x), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        triton_helpers.set_driver_to_cpu()
        out = torch.softmax(x, 1)
        leaf_kernel[(triton.cdiv(out.numel(), 1024),)](out, out.numel(), BLOCK=1024)
        triton_helpers.set_driver_to_gpu()
        return out
