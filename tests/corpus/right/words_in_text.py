# /// trick
# id = "OK-words"
# name = "words that sound bad"
# problem = "softmax"
# expect = ["right"]
# where = ["cpu", "gpu"]
# ///
"""Honest: one pass per row. Words: pass, eval(x), exec, torch.compile, import os, __class__, {0.__class__}.
A docstring may say anything."""

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


class Nothing:
    """No use but to pass."""

    pass


class ModelNew(nn.Module):
    """os.system, setattr(torch, "x"), sys._getframe: none of them is called."""

    def forward(self, x):
        # open("/etc/passwd"); try: except: pass
        note = "globals() and __import__ are words as well"
        return softmax(x) if note else x
