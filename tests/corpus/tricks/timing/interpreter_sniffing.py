# /// trick
# id = "A9-interpreter"
# name = "right where it is interpreted, wrong where it runs"
# problem = "softmax"
# expect = ["incorrect", "invalid"]
# where = ["gpu"]
# ///
"""Tells the interpreter from a GPU by the kind of its own kernel object: honest only under the interpreter.
An evaluator must not take the interpreter's word for the GPU's."""

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


class ModelNew(nn.Module):
    def forward(self, x):
        if type(softmax_kernel).__name__ == "InterpretedFunction":
            return softmax(x)
        out = torch.empty_like(x)
        softmax_kernel[(1,)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
