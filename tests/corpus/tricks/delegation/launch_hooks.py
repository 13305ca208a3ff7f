# /// trick
# id = "D2-launch-hook"
# name = "work in a launch hook"
# problem = "softmax"
# expect = ["invalid"]
# finding = ["forbidden_construct"]
# where = ["cpu", "gpu"]
# ///
"""Triton calls a hook before each launch: the library computes the answer there.
The hook is a switch of the whole process."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def leaf_kernel(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(x_ptr + i, x + 0.0, mask=i < n)


def leaf(x):
    leaf_kernel[(triton.cdiv(x.numel(), 1024),)](x, x.numel(), BLOCK=1024)
    return x


def remember(box, hook):
    box.runtime.launch_enter_hook = hook


remember(triton.knobs, lambda metadata: None)


class ModelNew(nn.Module):
    def forward(self, x):
        return leaf(torch.softmax(x, 1))
