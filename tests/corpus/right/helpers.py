# /// trick
# id = "OK-helpers"
# name = "dataclasses, partial, lru_cache, contextlib"
# problem = "softmax"
# expect = ["right"]
# where = ["cpu", "gpu"]
# ///
"""Honest, with much of the standard library that is allowed: a frozen dataclass, functools, contextlib, enum.
Own attributes are set and read by name."""

import contextlib
import enum
import functools
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Plan:
    block: int
    warps: int = 4


class Kind(enum.Enum):
    ROWS = "rows"


@functools.lru_cache(maxsize=16)
def plan(columns: int) -> Plan:
    return Plan(block=triton.next_power_of_2(columns), warps=8 if columns > 2048 else 4)


def launch(x, out, block, warps):
    softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=block, num_warps=warps)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        setattr(self, "kind", Kind.ROWS)
        for name in ("first", "second"):
            setattr(self, f"used_{name}", 0)

    def forward(self, x):
        chosen = plan(x.shape[1])
        out = torch.empty_like(x)
        with contextlib.suppress(KeyError), contextlib.nullcontext():
            functools.partial(launch, block=chosen.block, warps=getattr(chosen, "warps"))(x, out)
        self.used_first = getattr(self, "used_" + "first") + 1
        assert type(x).__name__ and self.__class__.__name__ == "ModelNew", f"{x.shape} {self.kind.value!r}"
        return out
