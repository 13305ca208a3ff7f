# /// trick
# id = "Y7"
# name = "a tensor subclass made by dataclasses"
# problem = "softmax"
# expect = ["invalid"]
# finding = ["forbidden_construct"]
# where = ["cpu", "gpu"]
# ///
"""make_dataclass makes a class with any bases: no class statement names a tensor.
The subclass computes late."""

import dataclasses

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


Later = dataclasses.make_dataclass("Later", [], bases=(torch.Tensor,), init=False, eq=False, repr=False)


class ModelNew(nn.Module):
    def forward(self, x):
        return softmax(x).as_subclass(Later)
