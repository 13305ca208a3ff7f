# /// trick
# id = "D2-library-hidden"
# name = "an operator of one's own, through an argument"
# problem = "matmul"
# expect = ["invalid", "incorrect", "runtime_error", "timeout", "compile_error", "out_of_memory"]
# where = ["cpu", "gpu"]
# terms = {triton_only = true}
# ///
"""The same, with the library handed to a function.
The product is beneath the custom operator."""

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


def register(box, function):
    return box.library.custom_op("mine::product", mutates_args=())(function)


def body(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.mm(a, b)


product = register(torch, body)


class ModelNew(nn.Module):
    def forward(self, a, b):
        return leaf(product(a, b))
