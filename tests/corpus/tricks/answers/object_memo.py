# /// trick
# id = "B6-id"
# name = "an answer remembered by identity of the tensor"
# problem = "softmax"
# expect = ["invalid", "incorrect", "runtime_error", "timeout", "compile_error", "out_of_memory"]
# where = ["gpu"]
# ///
"""Remembers answers under id(x) in a module-level dictionary, with functools' help.
A tensor object that is filled again keeps its identity."""

import functools

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


@functools.lru_cache(maxsize=None)
def known(number, shape):
    return []


class ModelNew(nn.Module):
    def forward(self, x):
        held = known(id(x), x.shape)
        if not held:
            held.append((x, softmax(x)))
        return held[0][1]
