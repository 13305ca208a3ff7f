# /// trick
# id = "OK-import"
# name = "a guarded import of an optional module"
# problem = "gelu"
# expect = ["right"]
# where = ["cpu", "gpu"]
# ///
"""Honest: takes libdevice where Triton has it, and does without elsewhere.
A pass over the data; nothing to hide."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

try:
    from triton.language.extra import libdevice
except ImportError:
    libdevice = None


@triton.autotune(
    configs=[triton.Config({"BLOCK": block}, num_warps=warps) for block in (512, 1024) for warps in (2, 4)],
    key=["n"],
)
@triton.jit
def gelu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, 0.5 * x * (1 + libdevice.erf(x * 0.7071067811865476)), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        gelu_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel())
        return out
