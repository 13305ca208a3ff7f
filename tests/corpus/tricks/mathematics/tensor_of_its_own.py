# /// trick
# id = "C7-tensor"
# name = "an object that passes for a larger tensor"
# problem = "row_max"
# expect = ["invalid"]
# finding = ["forbidden_construct"]
# where = ["cpu"]
# ///
"""A kernel takes anything that has a data_ptr(): this one tells of more memory than there is."""

import torch
import triton
import triton.language as tl
from torch import nn


class Wide:
    def __init__(self, x):
        self.x, self.dtype, self.shape = x, x.dtype, (1 << 20,)

    def data_ptr(self):
        return self.x.data_ptr()

    def untyped_storage(self):
        return self

    @property
    def _cdata(self):
        return id(self)

    def nbytes(self):
        return 1 << 22

    def stride(self):
        return (1,)

    def storage_offset(self):
        return 0

    def element_size(self):
        return 4


@triton.jit
def k(x, values, places, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * columns + at)
    v = tl.where(at < columns, v, -float("inf"))
    top, where = tl.max(v, 0, return_indices=True)
    tl.store(values + row, top)
    tl.store(places + row, where.to(tl.int64))


class ModelNew(nn.Module):
    def forward(self, x):
        values = torch.empty(x.shape[0], device=x.device)
        places = torch.empty(x.shape[0], device=x.device, dtype=torch.int64)
        k[(x.shape[0],)](Wide(x), values, places, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return values, places
