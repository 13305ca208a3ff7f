# /// trick
# id = "A2"
# name = "a thread launches after return"
# problem = "softmax"
# expect = ["invalid"]
# finding = ["forbidden_construct"]
# where = ["cpu", "gpu"]
# ///
"""forward returns memory that a thread fills a millisecond later: a correctness pass that synchronises late sees it
full.
The timed region holds an allocation."""

import threading
import time

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
        out = torch.empty_like(x)

        def later():
            time.sleep(0.001)
            softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))

        threading.Thread(target=later, daemon=True).start()
        return out
