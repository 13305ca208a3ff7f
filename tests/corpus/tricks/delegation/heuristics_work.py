# /// trick
# id = "D2-heuristics"
# name = "library work in a heuristic"
# problem = "softmax"
# expect = ["invalid"]
# where = ["cpu", "gpu"]
# terms = {triton_only = true}
# ///
"""A heuristic is evaluated before each launch: the library computes the answer there.
The kernel copies."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


def answer_first(arguments):
    arguments["out_ptr"].copy_(torch.softmax(arguments["x_ptr"], 1))
    return 1024


@triton.heuristics({"BLOCK": answer_first})
@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    out = tl.load(out_ptr + i, mask=i < n)
    tl.store(out_ptr + i, out, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        copy_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel())
        return out
