# /// trick
# id = "right-07"
# name = "log-sum-exp that survives -inf rows"
# problem = "rows_with_infinity"
# expect = ["right"]
# ///
"""Right: a row of -inf gives -inf."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def logsumexp_kernel(x_ptr, out_ptr, n_columns, BLOCK: tl.constexpr):
    """One program, one row; a row of -inf has no finite maximum to subtract."""
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n_columns + columns, mask=columns < n_columns, other=-float("inf"))
    largest = tl.max(x, axis=0)
    shift = tl.where(tl.abs(largest) == float("inf"), 0.0, largest)
    tl.store(out_ptr + row, tl.log(tl.sum(tl.exp(x - shift), axis=0)) + shift)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0], device=x.device, dtype=x.dtype)
        logsumexp_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
