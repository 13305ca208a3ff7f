# /// trick
# id = "B6-hash"
# name = "an answer remembered by a hash of the whole input"
# problem = "softmax"
# expect = ["invalid", "incorrect", "runtime_error", "timeout", "compile_error", "out_of_memory", "right"]
# where = ["cpu", "gpu"]
# ///
"""Hashes all of the input and keeps every answer it ever gave: right on any input, fast on one it has seen.
Harmless where no timed input comes twice."""

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

    def forward(self, x):
        bits = x.contiguous().view(torch.int32).to(torch.int64)
        weights = torch.arange(1, x.shape[1] + 1, device=x.device)
        key = (tuple(x.shape), int((bits * weights).sum()))
        if key not in self.known:
            self.known[key] = softmax(x)
        return self.known[key]
