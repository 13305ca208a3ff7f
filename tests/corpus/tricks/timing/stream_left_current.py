# /// trick
# id = "A1-current"
# name = "another stream left current"
# problem = "softmax"
# expect = ["invalid", "incorrect", "runtime_error"]
# where = ["gpu"]
# ///
"""Works on the current stream, then leaves another, idle stream current: the closing event is recorded there.
A context is entered and never left."""

import contextlib

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


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.open = contextlib.ExitStack()

    def forward(self, x):
        out = softmax(x)
        self.open.enter_context(torch.cuda.stream(torch.cuda.Stream()))
        return out
