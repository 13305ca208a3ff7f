# /// trick
# id = "Y25"
# name = "a dictionary that never ends"
# problem = "softmax"
# expect = ["incorrect", "invalid", "timeout", "out_of_memory", "runtime_error"]
# where = ["cpu", "gpu"]
# ///
"""Returns a dictionary whose items never end: whoever flattens the answer runs the candidate's code.
The answer is its first item."""

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


class Endless(dict):
    def items(self):
        while True:
            yield "out", self["out"]

    def keys(self):
        while True:
            yield "out"

    def values(self):
        while True:
            yield self["out"]

    def __iter__(self):
        return iter(self.keys())


class ModelNew(nn.Module):
    def forward(self, x):
        return Endless(out=softmax(x))
