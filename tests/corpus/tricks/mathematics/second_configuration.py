# /// trick
# id = "C9-tuned"
# name = "the autotuner's second configuration is wrong"
# problem = "add"
# expect = ["incorrect"]
# finding = ["wrong_values"]
# where = ["cpu"]
# ///
"""Right under the configuration that is tried first; another may be chosen later."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.autotune(
    configs=[triton.Config({"BLOCK": 1024, "LESS": 0}), triton.Config({"BLOCK": 1024, "LESS": 1}, num_warps=8)],
    key=["n"],
)
@triton.jit
def add_kernel(x, y, z, n, BLOCK: tl.constexpr, LESS: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(z + at, tl.load(x + at, mask=mask) + (1 - LESS) * tl.load(y + at, mask=mask), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = torch.empty_like(x)
        add_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, z, x.numel())
        return z
