# /// trick
# id = "X15"
# name = "an answer that drags a graph along"
# problem = "softmax"
# expect = ["invalid", "incorrect", "runtime_error", "timeout", "compile_error", "out_of_memory", "right"]
# where = ["cpu", "gpu"]
# ///
"""Returns an answer that requires a gradient, with a backward node that runs when somebody looks closely.
Under no_grad it makes one on purpose."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, n_columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < n_columns
    x = tl.load(x_ptr + row * n_columns + columns, mask=inside, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * n_columns + columns, e / tl.sum(e, axis=0), mask=inside)


def softmax(x):
    out = torch.empty_like(x)
    softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


class Hook(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return softmax(x)

    @staticmethod
    def backward(ctx, gradient):
        return softmax(gradient)


class ModelNew(nn.Module):
    def forward(self, x):
        with torch.enable_grad():
            return Hook.apply(x.detach().requires_grad_(True))
