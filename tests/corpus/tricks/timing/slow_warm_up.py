# /// trick
# id = "A8"
# name = "warm-up made slow"
# problem = "softmax"
# expect = ["invalid"]
# finding = ["forbidden_construct"]
# where = ["cpu", "gpu"]
# ///
"""Sleeps while warm-up repeats the same input, so that a harness that adapts its repeats measures a handful.
Then it replays the last answer."""

import time

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
        self.seen, self.answer = None, None

    def forward(self, x):
        if self.seen == x.data_ptr():
            time.sleep(0.01)
            return self.answer
        self.seen, self.answer = x.data_ptr(), softmax(x)
        return self.answer
