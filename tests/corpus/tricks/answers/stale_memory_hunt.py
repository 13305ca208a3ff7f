# /// trick
# id = "B1-hunt"
# name = "looks through freed memory for an answer"
# problem = "softmax"
# expect = ["invalid", "incorrect", "runtime_error", "timeout", "compile_error", "out_of_memory"]
# where = ["cpu", "gpu"]
# ///
"""Allocates many blocks of the answer's size, and returns the first whose rows sum to one: a freed reference answer.
Otherwise it computes."""

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
        blocks = [torch.empty_like(x) for _ in range(8)]
        for block in blocks:
            if bool((block[:, :8].abs().sum() > 0) & ((block.sum(dim=1) - 1).abs().max() < 1e-4)):
                return softmax(block) * 0 + block
        return softmax(x) * 1.001
