# /// trick
# id = "right-80"
# name = "softmax with the functions that PyTorch's compiler calls"
# problem = "softmax"
# expect = ["right"]
# ///
"""Right: maximum, sum and exponential are those of the kernels that PyTorch's compiler writes."""

import torch
import torch.nn as nn
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers
from torch._inductor.runtime.triton_helpers import libdevice
from torch._inductor.runtime.triton_helpers import math as tl_math


@triton.jit
def softmax_kernel(x_ptr, out_ptr, n_columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    mask = columns < n_columns
    x = tl.load(x_ptr + row * n_columns + columns, mask=mask, other=-float("inf"))
    largest = triton_helpers.promote_to_tensor(triton_helpers.max2(x, 0))
    numerator = tl_math.exp(x - largest)
    total = triton_helpers.maximum(tl.sum(numerator, axis=0), 1.0)
    logarithm = libdevice.log1p(total - 1.0)
    tl.store(out_ptr + row * n_columns + columns, tl_math.exp(x - largest - logarithm), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
