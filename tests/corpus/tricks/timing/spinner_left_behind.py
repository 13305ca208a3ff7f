# /// trick
# id = "A13-spinner"
# name = "work left behind on another stream"
# problem = "softmax"
# expect = ["invalid", "incorrect", "runtime_error", "right"]
# where = ["gpu"]
# ///
"""Leaves a long kernel running on another stream after each call, so that whoever is timed next shares the GPU with it.
Its own answer is right and early."""

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


@triton.jit
def spin_kernel(x_ptr, rounds):
    value = tl.load(x_ptr)
    for _ in range(rounds):
        value = value * 0.999 + 0.001
    tl.store(x_ptr, value)


class ModelNew(nn.Module):
    side = None

    def forward(self, x):
        out = softmax(x)
        if self.side is None:
            self.side, self.scratch = torch.cuda.Stream(), torch.ones(1, device=x.device)
        with torch.cuda.stream(self.side):
            spin_kernel[(1,)](self.scratch, 2_000_000)
        return out
