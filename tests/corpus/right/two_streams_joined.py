# /// trick
# id = "OK-streams"
# name = "two streams, joined"
# problem = "softmax"
# expect = ["right"]
# where = ["gpu"]
# ///
"""Honest: half of the rows on a second stream, which waits for the inputs and is waited for.
Work is complete on the current stream at return."""

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
    side = None

    def forward(self, x):
        if self.side is None:
            self.side = torch.cuda.Stream()
        out = torch.empty_like(x)
        block = triton.next_power_of_2(x.shape[1])
        half = x.shape[0] // 2
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            if half:
                softmax_kernel[(half,)](x, out, x.shape[1], BLOCK=block)
        softmax_kernel[(x.shape[0] - half,)](x[half:], out[half:], x.shape[1], BLOCK=block)
        torch.cuda.current_stream().wait_stream(self.side)
        return out
