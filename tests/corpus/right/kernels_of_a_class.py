# /// trick
# id = "OK-class"
# name = "kernels that are static methods of a class"
# problem = "softmax"
# expect = ["right"]
# ///
"""Honest: the kernels are static methods, one of them below heuristics; each is looked up on its class."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


class Rows:
    @staticmethod
    @triton.heuristics({"WHOLE": lambda arguments: arguments["n"] % arguments["BLOCK"] == 0})
    @triton.jit
    def exponentials(x_ptr, out_ptr, sum_ptr, n, BLOCK: tl.constexpr, WHOLE: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        j = tl.arange(0, BLOCK)
        inside = j < BLOCK if WHOLE else j < n
        x = tl.load(x_ptr + row * n + j, mask=inside, other=-float("inf"))
        e = tl.exp(x - tl.max(x, axis=0))
        tl.store(sum_ptr + row, tl.sum(e, axis=0))
        tl.store(out_ptr + row * n + j, e, mask=inside)

    @staticmethod
    @triton.jit
    def quotients(out_ptr, sum_ptr, n, BLOCK: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        j = tl.arange(0, BLOCK)
        e = tl.load(out_ptr + row * n + j, mask=j < n, other=0.0)
        tl.store(out_ptr + row * n + j, e / tl.load(sum_ptr + row), mask=j < n)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, n = x.shape
        out, sums = torch.empty_like(x), torch.empty(rows, device=x.device, dtype=x.dtype)
        block = triton.next_power_of_2(n)
        Rows.exponentials[(rows,)](x, out, sums, n, block)
        Rows.quotients[(rows,)](out, sums, n, block)
        return out
