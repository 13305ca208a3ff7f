# /// trick
# id = "D2-written"
# name = "a forbidden name in a source that is written at run time"
# problem = "silu"
# expect = ["invalid"]
# finding = ["forbidden_construct"]
# where = ["cpu", "gpu"]
# ///
"""The gate sees no forbidden name in the file; the kernel's new source has one."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def elementwise_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + places, mask=places < n, other=0.0)
    tl.store(out_ptr + places, FORMULA, mask=places < n)


def with_formula(formula):
    """A kernel that stores what the formula makes of x."""
    kernel = triton.JITFunction(elementwise_kernel.fn)
    kernel._unsafe_update_src(kernel.src.replace("FORMULA", formula))
    return kernel


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        kernel = with_formula(f"x / (1.0 + tl.exp(-x)) + 0 * torch.{chr(111)}s.cpu_count()")
        kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
