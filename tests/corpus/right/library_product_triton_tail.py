# /// trick
# id = "right-31"
# name = "library product, Triton epilogue"
# problem = "matmul_relu_bias"
# expect = ["right"]
# ///
"""Right: the library's product is allowed unless the task forbids it."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def tail_kernel(x_ptr, bias_ptr, out_ptr, n, columns, BLOCK: tl.constexpr):
    """relu(x) + bias, flat."""
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + places, mask=places < n, other=0.0)
    bias = tl.load(bias_ptr + places % columns, mask=places < n, other=0.0)
    tl.store(out_ptr + places, tl.maximum(x, 0.0) + bias, mask=places < n)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(columns))

    def forward(self, a, b):
        product = torch.mm(a, b)
        out = torch.empty_like(product)
        n = product.numel()
        tail_kernel[(triton.cdiv(n, 1024),)](product, self.bias, out, n, product.shape[1], BLOCK=1024)
        return out
