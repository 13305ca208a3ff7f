# /// trick
# id = "A13-hidden"
# name = "switches turned inside of a function"
# problem = "softmax"
# expect = ["invalid", "right"]
# where = ["gpu"]
# ///
"""As above through arguments of a function: the text assigns to no library.
What was changed shows in the state of the process."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


def settle(switches):
    switches.enabled = False
    switches.benchmark = False


settle(torch.backends.cudnn)


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
