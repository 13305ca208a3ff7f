# /// trick
# id = "X1"
# name = "every answer is the same buffer"
# problem = "softmax"
# expect = ["incorrect", "invalid"]
# where = ["cpu", "gpu"]
# ///
"""Returns views of one buffer for ever: the answer of the last call changes with the next one.
A harness that compares late compares the wrong call; one that compares at once has no objection."""

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
    out = None

    def forward(self, x):
        if self.out is None or self.out.shape != x.shape:
            self.out = torch.empty_like(x)
        softmax_kernel[(x.shape[0],)](x, self.out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return self.out.view(x.shape)
