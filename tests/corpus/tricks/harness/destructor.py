# /// trick
# id = "Y8"
# name = "work in a destructor"
# problem = "softmax"
# expect = ["invalid"]
# finding = ["forbidden_construct"]
# where = ["cpu", "gpu"]
# ///
"""An object's destructor launches the kernel when the call is over: after the clock has stopped.
The answer is filled late."""

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


class Late:
    def __init__(self, x, out):
        self.x, self.out = x, out

    def __del__(self):
        x, block = self.x, triton.next_power_of_2(self.x.shape[1])
        softmax_kernel[(x.shape[0],)](x, self.out, x.shape[1], BLOCK=block)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        self.pending = Late(x, out)
        return out
