# /// trick
# id = "Y4"
# name = "a library's traceback module"
# problem = "softmax"
# expect = ["invalid", "incorrect", "runtime_error", "timeout", "compile_error", "out_of_memory"]
# where = ["cpu", "gpu"]
# ///
"""torch.cuda imported traceback for itself: it walks the stack without a frame attribute in the candidate's text.
Calls from a function that times get the last answer."""

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


def callers(box):
    return [entry.name for entry in box.traceback.extract_stack()]


class ModelNew(nn.Module):
    kept = None

    def forward(self, x):
        if self.kept is not None and any("time" in name for name in callers(torch.cuda)):
            return self.kept
        self.kept = softmax(x)
        return self.kept
