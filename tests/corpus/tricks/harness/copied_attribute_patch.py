# /// trick
# id = "E12-wrapper"
# name = "a library patched by update_wrapper"
# problem = "softmax"
# expect = ["invalid"]
# finding = ["forbidden_construct"]
# where = ["cpu", "gpu"]
# ///
"""update_wrapper() sets attributes by name on anything, a library too."""

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


class Mine:
    @staticmethod
    def softmax(x, dim):
        return x


functools.update_wrapper(torch, Mine, assigned=("softmax",), updated=())


class ModelNew(nn.Module):
    def forward(self, x):
        return softmax(x)
