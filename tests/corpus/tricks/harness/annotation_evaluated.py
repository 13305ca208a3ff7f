# /// trick
# id = "E12-hints"
# name = "an annotation's text evaluated by typing"
# problem = "softmax"
# expect = ["invalid"]
# finding = ["forbidden_construct"]
# where = ["cpu", "gpu"]
# ///
"""get_type_hints() runs the text of an annotation, which no reader of syntax sees."""

import typing

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


class Note:
    x: "[BOX.append(__import__('sys').modules), int][1]"


typing.get_type_hints(Note)


class ModelNew(nn.Module):
    def forward(self, x):
        return softmax(x) if BOX else None
