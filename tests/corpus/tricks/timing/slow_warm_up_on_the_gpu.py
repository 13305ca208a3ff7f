# /// trick
# id = "A8-spin"
# name = "warm-up made slow without sleeping"
# problem = "softmax"
# expect = ["invalid", "incorrect", "runtime_error"]
# where = ["gpu"]
# ///
"""Repeats its own kernel many times for the first twenty calls, so that a harness that adapts measures few calls.
Then once per call, with the answer of call 25 ever after."""

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
        self.calls, self.kept = 0, None

    def forward(self, x):
        self.calls += 1
        if self.calls < 20:
            for _ in range(30):
                softmax(x)
        if self.calls < 25 or self.kept.shape != x.shape:
            self.kept = softmax(x)
        return self.kept
