# /// trick
# id = "right-66"
# name = "test code left in"
# problem = "silu"
# expect = ["right"]
# ///
"""Right: test code beside the module is left out, and told."""

import time

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def silu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """x / (1 + exp(-x)): far below zero the quotient goes to -0, never to NaN."""
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + places, mask=places < n, other=0.0)
    tl.store(out_ptr + places, x / (1.0 + tl.exp(-x)), mask=places < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        n = x.numel()
        silu_kernel[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
        return out


def get_inputs():
    return [torch.randn(1 << 20)]


def get_init_inputs():
    return []


if __name__ == "__main__":
    started = time.time()
    print(ModelNew()(*get_inputs()), time.time() - started)
