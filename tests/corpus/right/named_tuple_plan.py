# /// trick
# id = "OK-plan"
# name = "a plan as a named tuple, a launcher as a dataclass"
# problem = "add"
# expect = ["right"]
# where = ["cpu", "gpu"]
# ///
"""Both are classes that the standard library makes by running text of its own."""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import nn


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


class Plan(NamedTuple):
    block: int
    warps: int


@dataclass(frozen=True)
class Launcher:
    plan: Plan

    def __call__(self, x, y):
        z = torch.empty_like(x)
        add_kernel[(triton.cdiv(x.numel(), self.plan.block),)](
            x, y, z, x.numel(), BLOCK=self.plan.block, num_warps=self.plan.warps
        )
        return z


@lru_cache(maxsize=None)
def launcher(n):
    return Launcher(Plan(1024, 8) if n > 1 << 16 else Plan(256, 4))


class ModelNew(nn.Module):
    def forward(self, x, y):
        return launcher(x.numel())(x, y)
