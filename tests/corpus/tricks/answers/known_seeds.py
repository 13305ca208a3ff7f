# /// trick
# id = "B10"
# name = "answers of the known seeds precomputed"
# problem = "softmax"
# expect = ["invalid", "incorrect", "runtime_error", "timeout", "compile_error", "out_of_memory", "right"]
# where = ["cpu", "gpu"]
# ///
"""Draws the inputs of well-known seeds in the constructor and keeps the answers.
In forward it looks up which seed it was by one element."""

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
        self.known = {}
        for seed in (0, 1, 42, 123, 1234):
            torch.manual_seed(seed)
            x = torch.randn(2048, 4096)
            self.known[float(x[0, 0])] = torch.softmax(x, 1)

    def forward(self, x):
        return self.known[float(x[0, 0])].to(x.device) if float(x[0, 0]) in self.known else softmax(x)
