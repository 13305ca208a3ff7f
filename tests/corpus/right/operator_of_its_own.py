# /// trick
# id = "right-70"
# name = "a kernel as an operator of its own"
# problem = "silu"
# expect = ["right"]
# ///
"""Right: the launch is registered with torch.library, for those who trace the module."""

import torch
import torch.nn as nn
import triton
import triton.language as tl
from torch.library import triton_op, wrap_triton


@triton.jit
def silu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + places, mask=places < n, other=0.0)
    tl.store(out_ptr + places, x / (1.0 + tl.exp(-x)), mask=places < n)


@triton_op("mine::silu", mutates_args={})
def silu(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    n = x.numel()
    wrap_triton(silu_kernel)[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
    return out


@silu.register_fake
def _(x):
    return torch.empty_like(x)


@torch.library.custom_op("mine::silu_again", mutates_args=("out",))
def silu_into(x: torch.Tensor, out: torch.Tensor) -> None:
    silu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)


class ModelNew(nn.Module):
    def forward(self, x):
        if x.numel() < 2:
            out = torch.empty_like(x)
            silu_into(x, out)
            return out
        return silu(x)
