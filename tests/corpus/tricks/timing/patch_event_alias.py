# /// trick
# id = "A5-alias"
# name = "CUDA events patched through an alias"
# problem = "softmax"
# expect = ["invalid"]
# finding = ["forbidden_construct"]
# where = ["cpu", "gpu"]
# ///
"""As above with plain assignment, after the class has gone through two names and a loop.
A search for `Event.elapsed_time =` finds nothing."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

for clock in (torch.cuda.Event,):
    hand = clock
    honest = hand.elapsed_time
    hand.elapsed_time = lambda self, other: honest(self, other) / 100


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
    def forward(self, x):
        return softmax(x)
