# /// trick
# id = "A3-object"
# name = "an object that becomes a tensor by class assignment"
# problem = "softmax"
# expect = ["invalid", "incorrect", "runtime_error", "timeout", "compile_error", "out_of_memory"]
# where = ["cpu", "gpu"]
# ///
"""The subclass is hidden behind a base handed in by a function, and the answer is turned into it at return.
The text names no tensor class as a base."""

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


def lazy(Base):
    class Later(Base):
        def cpu(self, *args, **kwargs):
            return softmax(self.source).cpu()

        def clone(self, *args, **kwargs):
            return softmax(self.source)

    return Later


class ModelNew(nn.Module):
    def forward(self, x):
        Later = lazy(type(x))
        out = Later(torch.empty_like(x))
        out.source = x
        leaf_kernel[(1,)](out)
        return out


@triton.jit
def leaf_kernel(x_ptr):
    tl.store(x_ptr, tl.load(x_ptr))
