# /// trick
# id = "E12-enum"
# name = "a module's names by an enumeration"
# problem = "add"
# expect = ["invalid"]
# finding = ["forbidden_construct"]
# where = ["cpu", "gpu"]
# ///
"""IntEnum._convert_() goes through, and changes, any module by its name."""

import enum

import torch
import triton
import triton.language as tl
from torch import nn


class Base(enum.IntEnum):
    def describe(self):
        return 0


names = []
Base._convert_("Taken", "sys", lambda name: bool(names.append(name)))


@triton.jit
def add_kernel(x, y, z, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(z + at, tl.load(x + at, mask=mask) + tl.load(y + at, mask=mask), mask=mask)


def add(x, y):
    out = torch.empty_like(x)
    n = x.numel()
    add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
    return out


class ModelNew(nn.Module):
    def forward(self, x, y):
        return add(x, y) if names else None
