# /// trick
# id = "X17"
# name = "wrong after fifty calls, by a counter on the GPU"
# problem = "softmax"
# expect = ["incorrect", "invalid"]
# where = ["gpu"]
# ///
"""As above, but the counter lives on the GPU and the kernel reads it: nothing in Python branches.
Half of the rows are skipped later."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def counted_kernel(x_ptr, out_ptr, count_ptr, n_rows, n_columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    calls = tl.load(count_ptr)
    inside = (columns < n_columns) & ((calls < 50) | (row < n_rows // 2))
    x = tl.load(x_ptr + row * n_columns + columns, mask=inside, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * n_columns + columns, e / tl.sum(e, axis=0), mask=inside)


@triton.jit
def count_kernel(count_ptr):
    tl.store(count_ptr, tl.load(count_ptr) + 1)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(1, dtype=torch.int32), persistent=False)

    def forward(self, x):
        out = torch.empty_like(x)
        block = triton.next_power_of_2(x.shape[1])
        counted_kernel[(x.shape[0],)](x, out, self.count, x.shape[0], x.shape[1], BLOCK=block)
        count_kernel[(1,)](self.count)
        return out
