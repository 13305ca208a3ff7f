# /// trick
# id = "OK-properties"
# name = "asks the device what it is"
# problem = "softmax"
# expect = ["right"]
# where = ["cpu", "gpu"]
# ///
"""Honest: a persistent kernel with as many programs as there are multiprocessors.
Asks PyTorch for their number, and Triton for the driver."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, n_rows, n_columns, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    inside = columns < n_columns
    for row in range(tl.program_id(0), n_rows, tl.num_programs(0)):
        at = row * n_columns + columns
        x = tl.load(x_ptr + at, mask=inside, other=-float("inf"))
        e = tl.exp(x - tl.max(x, axis=0))
        tl.store(out_ptr + at, e / tl.sum(e, axis=0), mask=inside)


def softmax(x):
    out = torch.empty_like(x)
    programs = torch.cuda.get_device_properties(x.device).multi_processor_count * 4
    softmax_kernel[(min(programs, x.shape[0]),)](
        x, out, x.shape[0], x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1])
    )
    return out


class ModelNew(nn.Module):
    def forward(self, x):
        return softmax(x)
