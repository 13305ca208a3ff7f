# /// trick
# id = "OK-hooks"
# name = "heuristics and a hook that clears"
# problem = "column_sum"
# expect = ["right"]
# where = ["cpu", "gpu"]
# ///
"""Honest: a heuristic picks a block, a hook clears the accumulator before each launch of the autotuner.
Both are what they are meant for."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


def cleared(arguments):
    arguments["out_ptr"].zero_()


@triton.autotune(configs=[triton.Config({"ROWS": rows}, pre_hook=cleared) for rows in (32, 64)], key=["n", "rows"])
@triton.heuristics({"BLOCK": lambda arguments: min(128, triton.next_power_of_2(arguments["n"]))})
@triton.jit
def sum_kernel(x_ptr, out_ptr, n, rows, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    j = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    i = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    x = tl.load(x_ptr + i[:, None] * n + j[None, :], mask=(i < rows)[:, None] & (j < n)[None, :], other=0.0)
    tl.atomic_add(out_ptr + j, tl.sum(x, axis=0), mask=j < n)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, n = x.shape
        out = torch.empty(n, device=x.device, dtype=x.dtype)
        block = min(128, triton.next_power_of_2(n))
        sum_kernel[lambda meta: (triton.cdiv(n, block), triton.cdiv(rows, meta["ROWS"]))](x, out, n, rows)
        return out
