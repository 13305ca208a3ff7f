# /// trick
# id = "right-87"
# name = "a kernel whose formula is put in at run time"
# problem = "silu"
# expect = ["right"]
# ///
"""The source that is compiled is made of the one in the file, by Triton's own function for that."""

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
        kernel = with_formula("x / (1.0 + tl.exp(-x))")
        kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
