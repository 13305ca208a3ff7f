# /// trick
# id = "X21"
# name = "rows compared with remembered ones on the GPU"
# problem = "softmax"
# expect = ["invalid", "incorrect", "runtime_error", "timeout", "compile_error", "out_of_memory", "right"]
# where = ["cpu", "gpu"]
# ///
"""Keeps the last input and answer; each row is compared with the one remembered, and copied if it is the same.
Always right, and faster only where a harness repeats itself."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def memo_kernel(x_ptr, old_ptr, kept_ptr, out_ptr, n_columns, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * n_columns + tl.arange(0, BLOCK)
    inside = tl.arange(0, BLOCK) < n_columns
    x = tl.load(x_ptr + at, mask=inside, other=-float("inf"))
    old = tl.load(old_ptr + at, mask=inside, other=-float("inf"))
    if tl.sum((x != old).to(tl.int32), axis=0) == 0:
        tl.store(out_ptr + at, tl.load(kept_ptr + at, mask=inside), mask=inside)
    else:
        e = tl.exp(x - tl.max(x, axis=0))
        answer = e / tl.sum(e, axis=0)
        tl.store(out_ptr + at, answer, mask=inside)
        tl.store(kept_ptr + at, answer, mask=inside)
        tl.store(old_ptr + at, x, mask=inside)


class ModelNew(nn.Module):
    old = None

    def forward(self, x):
        if self.old is None or self.old.shape != x.shape:
            self.old = torch.full_like(x, float("nan"))
            self.kept = torch.zeros_like(x)
        out = torch.empty_like(x)
        block = triton.next_power_of_2(x.shape[1])
        memo_kernel[(x.shape[0],)](x, self.old, self.kept, out, x.shape[1], BLOCK=block)
        return out
