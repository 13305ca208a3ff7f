# /// trick
# id = "bug-router-reversed"
# name = "indices in the order of the smallest first"
# problem = "router_top"
# expect = ["incorrect"]
# ///
"""Planted: the right experts, but their indices stand beside one another's probabilities."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def router_kernel(x_ptr, values_ptr, indices_ptr, n, TOP: tl.constexpr, BLOCK: tl.constexpr):
    """One program, one token: the largest probability that is left, as often as asked for."""
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + columns, mask=columns < n, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    left = tl.where(columns < n, e / tl.sum(e, axis=0), -1.0)
    for place in range(TOP):
        value, index = tl.max(left, axis=0, return_indices=True)
        tl.store(values_ptr + row * TOP + place, value)
        tl.store(indices_ptr + row * TOP + (TOP - 1 - place), index.to(tl.int64))
        left = tl.where(columns == index, -1.0, left)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, n = x.shape
        values = torch.empty((rows, 4), device=x.device, dtype=x.dtype)
        indices = torch.empty((rows, 4), device=x.device, dtype=torch.int64)
        router_kernel[(rows,)](x, values, indices, n, TOP=4, BLOCK=triton.next_power_of_2(n))
        return values, indices
