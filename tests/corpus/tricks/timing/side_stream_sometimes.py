# /// trick
# id = "A1-sometimes"
# name = "stream joined on every fifth call"
# problem = "softmax"
# expect = ["invalid", "incorrect", "runtime_error"]
# where = ["gpu"]
# ///
"""A side stream that is joined on every fifth call only, so that an audit of single calls may find it joined.
Four calls in five return before the work is done."""

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
        self.side, self.calls = torch.cuda.Stream(), 0

    def forward(self, x):
        self.calls += 1
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            out = softmax(x)
        if self.calls % 5 == 1:
            torch.cuda.current_stream().wait_stream(self.side)
        return out
