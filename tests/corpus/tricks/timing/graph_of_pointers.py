# /// trick
# id = "A12-pointers"
# name = "a CUDA graph keyed on the pointer alone"
# problem = "softmax"
# expect = ["invalid", "incorrect", "runtime_error"]
# where = ["gpu"]
# ///
"""The graph reads the live pointer of the first call, so that fresh values at the same address are right.
Inputs that come at another address are answered with the first one's values."""

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
    graph = None

    def forward(self, x):
        if self.graph is None or self.shape != x.shape:
            self.shape, self.keep = x.shape, x
            softmax(x)
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.answer = softmax(x)
        self.graph.replay()
        return self.answer.clone()
