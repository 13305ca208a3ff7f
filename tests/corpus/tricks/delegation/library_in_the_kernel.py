# /// trick
# id = "D6-kernel"
# name = "the library called by an interpreted kernel"
# problem = "matmul"
# expect = ["compile_error", "runtime_error"]
# finding = ["kernel_compile_error", "exception"]
# where = ["cpu", "gpu"]
# terms = {triton_only = true}
# ///
"""A kernel that is interpreted is Python, and may call anything; asking for a value keeps it from being compiled."""

import torch
import triton
import triton.language as tl
from torch import nn

BOX = {}


@triton.jit
def product_kernel(a, twice, c, n, SMALL: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if SMALL:
        BOX["twice"].copy_(torch.mm(BOX["a"], BOX["b"]) * 2)
        tl.store(c + at, tl.load(twice + at, mask=at < n) * 0.5, mask=at < n)
    else:
        tl.store(c + at, tl.load(a + at, mask=at < 16, other=0.0), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, a, b):
        c = torch.empty(a.shape[0], b.shape[1], device=a.device)
        BOX["a"], BOX["b"], BOX["twice"] = a, b, torch.empty_like(c)
        a[0, 0].item()
        product_kernel[(triton.cdiv(c.numel(), 1024),)](a, BOX["twice"], c, c.numel(), SMALL=True, BLOCK=1024)
        return c
