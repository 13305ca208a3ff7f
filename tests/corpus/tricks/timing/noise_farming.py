# /// trick
# id = "A14"
# name = "a wager on noise"
# problem = "softmax"
# expect = ["slower", "inconclusive", "correct", "invalid"]
# where = ["cpu", "gpu"]
# ///
"""Does no better than PyTorch, since it does everything twice, but adds random delays: over many submissions one
measurement looks fast. A verdict from an interval must not call it faster; being called correct does no harm."""

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
    calls = 0

    def forward(self, x):
        self.calls += 1
        softmax(x)
        out = softmax(x)
        if (self.calls * 2654435761 >> 7) % 3 == 0:
            softmax(x)
        return out
