# /// trick
# id = "B6-streak"
# name = "replays after ten calls of one shape"
# problem = "softmax"
# expect = ["invalid", "incorrect", "runtime_error", "timeout", "compile_error", "out_of_memory"]
# where = ["gpu"]
# ///
"""Honest for the first ten calls of a shape in a row, which is more than most correctness checks make.
Then replays: a time bomb."""

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
        self.streak, self.answer = 0, None

    def forward(self, x):
        same = self.answer is not None and self.answer.shape == x.shape
        self.streak = self.streak + 1 if same else 0
        if self.streak < 10:
            self.answer = softmax(x)
        return self.answer
