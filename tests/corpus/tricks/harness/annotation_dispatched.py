# /// trick
# id = "E12-dispatch"
# name = "an annotation's text evaluated by singledispatch"
# problem = "softmax"
# expect = ["invalid"]
# finding = ["forbidden_construct"]
# where = ["cpu", "gpu"]
# ///
"""functools asks typing what an annotation means, and its text is run."""

import functools

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def softmax_kernel(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    mask = at < columns
    v = tl.load(x + row * columns + at, mask=mask, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + row * columns + at, e / tl.sum(e, 0), mask=mask)


def softmax(x):
    out = torch.empty_like(x)
    softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


BOX = []


@functools.singledispatch
def chosen(x):
    return softmax(x)


@chosen.register
def _(x: "[BOX.append(__import__('sys').modules), int][1]"):
    return x


class ModelNew(nn.Module):
    def forward(self, x):
        return chosen(x) if BOX else None
